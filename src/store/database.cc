#include "store/database.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"
#include "store/connection.h"

namespace cella::store {
namespace {

// SQLite makes files that every user may read, and gives the log the mode of the database. So the file is there before
// SQLite sees it. An existing one is never opened here: closing it again would drop the locks that another connection
// of this process holds.
Status MakePrivate(const std::string& path) {
  UniqueFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (made) return {};
  if (errno == EACCES || errno == EPERM || errno == EROFS) return std::unexpected(NotWritable(path, errno));
  if (errno == ENOENT) return Err(ErrorCode::kNotFound, "'{}' cannot be made: its directory does not exist", path);
  if (errno != EEXIST) return SysErr(errno, "make '{}'", path);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string file = path + suffix;
    struct stat info;
    if (::lstat(file.c_str(), &info) < 0) continue;
    if (!S_ISREG(info.st_mode)) return Err(ErrorCode::kInvalid, "'{}' is not a regular file", file);
    if ((info.st_mode & 0077) != 0 && ::chmod(file.c_str(), 0600) < 0) {
      return SysErr(errno, "make '{}' private (mode 0600)", file);
    }
  }
  return {};
}

// A journal of several databases ends with the name of another file, which SQLite removes once it has played the
// journal back. Ours are of one database each, so such a journal was planted, to have a file of ours removed.
Status RefuseNamedFile(const std::string& path) {
  constexpr std::array<unsigned char, 8> kMagic = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  const std::string journal = path + "-journal";
  UniqueFd file(::open(journal.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENOENT) return {};
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a regular file: remove it", journal);
  }
  const off_t end = info.st_size - static_cast<off_t>(kMagic.size());
  std::array<unsigned char, kMagic.size()> last{};
  if (end < 0) return {};
  if (::pread(file.get(), last.data(), last.size(), end) != static_cast<ssize_t>(last.size())) {
    return SysErr(errno, "read '{}'", journal);
  }
  if (!std::ranges::equal(last, kMagic)) return {};
  return Err(ErrorCode::kPermission,
             "'{}' names another file, which would be removed: another program wrote it; remove it", journal);
}

int NoteWal(void* connection, sqlite3* /*db*/, const char* /*name*/, int pages) {
  static_cast<Connection*>(connection)->wal_pages = pages;
  return SQLITE_OK;
}

}  // namespace

Database::Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Database::Database(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::Open(const std::string& path, const OpenOptions& options) {
  if (path.empty()) return Err(ErrorCode::kInvalid, "a database needs a path");
  const bool writes = options.access == Access::kReadWrite;
  auto connection = std::make_unique<Connection>();
  // Names that begin with "file:" or ":" have a meaning of their own.
  connection->path = path.starts_with('/') || path.starts_with("./") ? path : "./" + path;
  if (writes) TRY_VOID(MakePrivate(connection->path));
  TRY_VOID(RefuseNamedFile(connection->path));
  int flags = writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;
  const int code = sqlite3_open_v2(connection->path.c_str(), &connection->db, flags, nullptr);
  if (code != SQLITE_OK) return Failure(*connection, code);
  sqlite3_busy_timeout(connection->db, static_cast<int>(options.busy_timeout.count()));
  // What is in the file is data: it must not call functions or rewrite its own schema.
  sqlite3_db_config(connection->db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);

  Database database(std::move(connection));
  TRY_VOID(database.Execute("PRAGMA foreign_keys = ON"));
  if (writes) {
    // The first has an effect only on a file without content, hence before the second, which writes some. What is
    // deleted is overwritten where that costs no further write; distributions differ in their default.
    TRY_VOID(
        database.Execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                         "PRAGMA secure_delete = FAST"));
    sqlite3_wal_hook(database.connection_->db, NoteWal, database.connection_.get());
  }
  // A file that is no database, and a directory that takes no log, are noticed by the first read.
  TRY_VOID(database.Number("SELECT count(*) FROM sqlite_schema"));
  return database;
}

Result<Statement> Database::Prepare(std::string_view sql) {
  auto idle = connection_->idle.find(sql);
  if (idle != connection_->idle.end() && !idle->second.empty()) {
    sqlite3_stmt* statement = idle->second.back();
    idle->second.pop_back();
    return Statement(*connection_, statement);
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection_->db, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Failure(*connection_, code);
  if (idle == connection_->idle.end()) connection_->idle.try_emplace(std::string(sql));
  return Statement(*connection_, statement);
}

Status Database::Execute(const std::string& script) {
  const int code = sqlite3_exec(connection_->db, script.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Failure(*connection_, code);
  return {};
}

int64_t Database::changes() const { return sqlite3_changes64(connection_->db); }

int64_t Database::last_insert_rowid() const { return sqlite3_last_insert_rowid(connection_->db); }

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_->db) == 0; }

const std::string& Database::path() const { return connection_->path; }

int Database::wal_pages() const { return connection_->wal_pages; }

Status Database::Checkpoint() {
  int pages = 0;
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(connection_->db, nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  if (code != SQLITE_OK) return Failure(*connection_, code);
  // The log itself stays as large as it is; its next writer begins at its front if all of it was moved.
  connection_->wal_pages = pages - moved;
  return {};
}

}  // namespace cella::store
