#include "storage/file_storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "os/beneath.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "storage/names.h"
#include "store/schema.h"
#include "store/transaction.h"

namespace cella::storage {
namespace {

using namespace std::chrono_literals;

constexpr int32_t kApplication = 0x63656c73;  // "cels"
constexpr const char* kSteps[] = {
    // A row of `sources` is a source that was looked at. from_jail: code in a jail saved it.
    "CREATE TABLE artifacts (name TEXT PRIMARY KEY, size INTEGER NOT NULL, changed_ns INTEGER NOT NULL, kind TEXT NOT "
    "NULL, origin TEXT NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, description TEXT NOT NULL, "
    "metadata TEXT NOT NULL);"
    "CREATE TABLE workflows (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, changed_ns "
    "INTEGER NOT NULL, hash TEXT NOT NULL, origin TEXT NOT NULL, description TEXT NOT NULL);"
    "CREATE TABLE sources (hash TEXT PRIMARY KEY, problem TEXT, description TEXT NOT NULL DEFAULT '', from_jail "
    "INTEGER NOT NULL DEFAULT 0, approved INTEGER NOT NULL DEFAULT 0);"
    "CREATE VIRTUAL TABLE workflow_words USING fts5(name, description, source)"};
constexpr auto kLockPatience = 30s;  // other processes have the index for milliseconds
constexpr int kLogPages = 1000;
constexpr size_t kPageBytes = size_t{256} << 10;  // what one page of a list takes, about
constexpr int kMostLevels = 200;
constexpr uint64_t kDerivedBytes = uint64_t{8} << 20;  // a larger file that people put there counts as bytes
constexpr JsonLimits kMetadataLimits = {.bytes = kMaxMetadata, .depth = 32, .nodes = 2000};

int64_t NowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Status MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (mkdir(path.substr(0, end).c_str(), 0755) < 0 && errno != EEXIST) {
      return SysErr(errno, "make the storage '{}'", path);
    }
    if (end == std::string::npos) return {};
  }
}

// One process at a time makes the index; the kernel unlocks it when the process ends.
Result<UniqueFd> LockForOpening(int directory) {
  UniqueFd lock = os::OpenBeneath(directory, ".cella/lock", O_RDWR | O_CREAT, 0600);
  if (!lock) return SysErr(errno, "open the lock of the storage");
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return SysErr(errno, "lock the storage");
    if (std::chrono::steady_clock::now() > deadline) {
      return Err(ErrorCode::kExhausted, "another process keeps the storage locked");
    }
    std::this_thread::sleep_for(5ms);
  }
  return lock;
}

// A view in the place of a table can have rows without end, and a trigger can make others of one.
Status CheckTables(store::Database& index) {
  TRY(const int64_t foreign,
      index.Number("SELECT count(*) FROM sqlite_schema WHERE type IN ('view', 'trigger') OR (sql LIKE 'CREATE VIRTUAL "
                   "TABLE%' AND name <> 'workflow_words')"));
  if (foreign == 0) return {};
  return Err(ErrorCode::kPermission, "'{}' was changed by another program: use another directory", index.path());
}

os::EntryInfo InfoOf(int fd) {
  struct stat info = {};
  (void)fstat(fd, &info);
  return os::InfoOf(info);
}

// Readers of JSON are recursive, also those of the caller's program.
bool IsJson(std::string_view text) { return !NestsDeeperThan(text, kMostLevels) && nlohmann::json::accept(text); }

Status CheckContent(const std::string& name, Kind kind, int file, uint64_t limit) {
  if (kind == Kind::kBytes) return {};
  if (lseek(file, 0, SEEK_SET) < 0) return SysErr(errno, "read '{}'", Shown(name));
  TRY(const std::string content, os::ReadFd(file, limit));
  if (kind == Kind::kText && !IsUtf8(content)) {
    return Err(ErrorCode::kInvalid, "'{}' is not text: it is no UTF-8; save it as bytes", Shown(name));
  }
  if (kind == Kind::kJson && !IsJson(content)) {
    return Err(ErrorCode::kInvalid, "'{}' is not JSON; save it as text", Shown(name));
  }
  return {};
}

Status CheckDetails(const FileStorage::Details& details) {
  if (details.description.size() > kMaxDescription || !IsUtf8(details.description)) {
    return Err(ErrorCode::kInvalid, "a description is UTF-8 of at most {} bytes", kMaxDescription);
  }
  auto metadata = ReadJson(details.metadata, kMetadataLimits);
  if (metadata && metadata->is_object()) return {};
  return Err(ErrorCode::kInvalid, "metadata: an object of JSON values of at most {} bytes is expected", kMaxMetadata);
}

}  // namespace

std::string_view ToString(Kind kind) { return kind == Kind::kText ? "text" : kind == Kind::kJson ? "json" : "bytes"; }

std::optional<Kind> ParseKind(std::string_view word) {
  for (const Kind kind : {Kind::kText, Kind::kBytes, Kind::kJson}) {
    if (ToString(kind) == word) return kind;
  }
  return std::nullopt;
}

std::string_view ToString(Origin origin) { return origin == Origin::kJail ? "jail" : "caller"; }

FileStorage::FileStorage(std::string path, const Bounds& bounds, CheckSources check, os::Directory directory,
                         store::Database index)
    : path_(std::move(path)),
      bounds_(bounds),
      check_(std::move(check)),
      directory_(std::move(directory)),
      index_(std::move(index)) {}

Result<std::unique_ptr<FileStorage>> FileStorage::Open(const std::string& path, const Bounds& bounds,
                                                       CheckSources check) {
  TRY_VOID(MakeDirectories(path));
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return SysErr(errno, "open the storage '{}'", path);
  os::Directory directory(std::move(fd), std::nullopt);
  auto made = directory.MakeDirectories(".cella/tmp");
  if (!made) return std::unexpected(std::move(made.error()).WithContext(fmt::format("the storage '{}'", path)));
  (void)fchmodat(directory.fd(), ".cella", 0700, 0);
  TRY(const UniqueFd lock, LockForOpening(directory.fd()));
  TRY(store::Database index, store::Database::Open(path + "/.cella/index.db", {.busy_timeout = kLockPatience}));
  // A commit survives a loss of power: otherwise a file of a jail might stay whose origin is forgotten.
  TRY_VOID(index.Execute("PRAGMA synchronous = FULL"));
  TRY_VOID(store::Migrate(index, {kApplication, kSteps}));
  TRY_VOID(CheckTables(index));
  std::unique_ptr<FileStorage> storage(
      new FileStorage(path, bounds, std::move(check), std::move(directory), std::move(index)));
  storage->SweepParts();
  return storage;
}

Result<FileStorage::Upload> FileStorage::BeginSave(const std::string& name) {
  TRY_VOID(CheckArtifactName(name));
  std::string part = RandomHex(24);
  TRY(UniqueFd file, MakePart(part));
  return Upload(*this, name, std::move(part), std::move(file));
}

Result<Artifact> FileStorage::Save(const std::string& name, std::string_view content, const Details& details) {
  TRY(Upload upload, BeginSave(name));
  TRY_VOID(upload.Write(content));
  return upload.Commit(details);
}

Result<Artifact> FileStorage::CommitUpload(Upload& upload, const Details& details) {
  TRY_VOID(CheckDetails(details));
  TRY_VOID(CheckContent(upload.name_, details.kind, upload.file_.get(), bounds_.artifact_bytes));
  if (fsync(upload.file_.get()) < 0) return SysErr(errno, "write '{}'", Shown(upload.name_));
  const os::EntryInfo info = InfoOf(upload.file_.get());
  UniqueFd parent;
  Artifact artifact{.name = upload.name_,
                    .kind = details.kind,
                    .origin = details.origin,
                    .size = info.size,
                    .description = details.description,
                    .metadata = details.metadata,
                    .created_ms = NowMs(),
                    .updated_ms = 0};
  artifact.updated_ms = artifact.created_ms;
  {
    const std::scoped_lock lock(mutex_);
    TRY(auto transaction, store::Transaction::Begin(index_));
    TRY(const auto before, Row(artifact.name, nullptr));
    if (before) artifact.created_ms = before->created_ms;
    TRY_VOID(CheckRoom(before ? std::optional(before->size) : std::nullopt, artifact.size));
    TRY(parent, Place(upload.part_, "artifacts/" + artifact.name));
    upload.part_.clear();
    TRY_VOID(PutRow(artifact, info.modified_ns));
    TRY_VOID(transaction.Commit());
    TidyLog();
  }
  if (fsync(parent.get()) < 0) return SysErr(errno, "write '{}'", Shown(artifact.name));
  return artifact;
}

Status FileStorage::CheckRoom(std::optional<uint64_t> replaced, uint64_t size) {
  TRY(auto totals, index_.Prepare("SELECT count(*), total(size) FROM (SELECT size FROM artifacts UNION ALL SELECT size "
                                  "FROM workflows)"));
  TRY([[maybe_unused]] const bool row, totals.Step());
  const auto files = static_cast<uint64_t>(totals.Integer(0)) - (replaced ? 1 : 0);
  const auto bytes = static_cast<uint64_t>(totals.Real(1)) -
                     std::min<uint64_t>(replaced.value_or(0), static_cast<uint64_t>(totals.Real(1)));
  if (files >= bounds_.files) {
    return Err(ErrorCode::kExhausted, "the storage is full: it has {} files; delete some", bounds_.files);
  }
  if (bytes + size > bounds_.bytes) {
    return Err(ErrorCode::kExhausted, "the storage is full: it may have {} bytes and has {}; delete something",
               bounds_.bytes, bytes);
  }
  return {};
}

Result<std::optional<Artifact>> FileStorage::Row(const std::string& name, int64_t* changed_ns) {
  TRY(auto row, index_.Prepare("SELECT size, changed_ns, kind, origin, created_ms, updated_ms, description, metadata "
                               "FROM artifacts WHERE name = ?"));
  row.Bind(name);
  TRY(const bool found, row.Step());
  if (!found) return std::nullopt;
  if (changed_ns != nullptr) *changed_ns = row.Integer(1);
  return Artifact{.name = name,
                  .kind = ParseKind(row.Text(2)).value_or(Kind::kBytes),
                  .origin = row.Text(3) == ToString(Origin::kJail) ? Origin::kJail : Origin::kCaller,
                  .size = static_cast<uint64_t>(row.Integer(0)),
                  .description = row.Text(6),
                  .metadata = row.Text(7),
                  .created_ms = row.Integer(4),
                  .updated_ms = row.Integer(5)};
}

Status FileStorage::PutRow(const Artifact& artifact, int64_t changed_ns) {
  return index_.Run(
      "INSERT INTO artifacts (name, size, changed_ns, kind, origin, created_ms, updated_ms, description, metadata) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET size = excluded.size, changed_ns = "
      "excluded.changed_ns, kind = excluded.kind, origin = excluded.origin, created_ms = excluded.created_ms, "
      "updated_ms = excluded.updated_ms, description = excluded.description, metadata = excluded.metadata",
      artifact.name, artifact.size, changed_ns, ToString(artifact.kind), ToString(artifact.origin), artifact.created_ms,
      artifact.updated_ms, artifact.description, artifact.metadata);
}

// Moves the log of the index into its file now and then, so that it does not grow.
void FileStorage::TidyLog() {
  if (index_.wal_pages() > kLogPages) (void)index_.Checkpoint();
}

Artifact FileStorage::Derive(const std::string& name, const os::EntryInfo& info, int fd,
                             std::optional<Artifact> known) const {
  Artifact artifact = known.value_or(Artifact{});
  artifact.name = name;
  artifact.size = info.size;
  artifact.updated_ms = info.modified_ns / 1'000'000;
  if (!known) artifact.created_ms = artifact.updated_ms;
  auto content = info.size <= kDerivedBytes ? os::ReadFd(fd, kDerivedBytes) : Result<std::string>();
  const bool small = info.size <= kDerivedBytes && content.has_value();
  const bool json = small && (known ? known->kind == Kind::kJson : name.ends_with(".json")) && IsJson(*content);
  const bool text = small && !(known && known->kind == Kind::kBytes) && IsUtf8(*content);
  artifact.kind = json ? Kind::kJson : text ? Kind::kText : Kind::kBytes;
  (void)lseek(fd, 0, SEEK_SET);
  return artifact;
}

Result<LoadedArtifact> FileStorage::Load(const std::string& name) {
  TRY_VOID(CheckArtifactName(name));
  auto opened = directory_.OpenWithInfo("artifacts/" + name);
  if (!opened) {
    if (opened.error().sys_errno != ENOENT && opened.error().sys_errno != ENOTDIR) {
      return std::unexpected(std::move(opened.error()).WithContext("artifacts"));
    }
    return Err(ErrorCode::kNotFound, "there is no artifact '{}'", Shown(name));
  }
  int64_t changed_ns = 0;
  std::optional<Artifact> known;
  {
    const std::scoped_lock lock(mutex_);
    TRY(known, Row(name, &changed_ns));
  }
  // Otherwise the file was put there by other means, or its save was interrupted before the index knew of it.
  const bool current = known && known->size == opened->info.size && changed_ns == opened->info.modified_ns;
  if (!current) known = Derive(name, opened->info, opened->fd.get(), std::move(known));
  return LoadedArtifact{std::move(*known), std::move(opened->fd)};
}

Result<std::optional<Artifact>> FileStorage::Get(const std::string& name) {
  auto loaded = Load(name);
  if (loaded) return std::move(loaded->info);
  if (loaded.error().code == ErrorCode::kNotFound) return std::nullopt;
  return std::unexpected(std::move(loaded.error()));
}

// Brings the index in line with the files: what people put there, changed or removed by other means.
Status FileStorage::Reconcile() {
  auto listed = directory_.Stat("artifacts");
  std::map<std::string, uint64_t> files;
  if (listed) {
    auto fd = os::OpenBeneath(directory_.fd(), "artifacts", O_RDONLY | O_DIRECTORY);
    if (!fd) return SysErr(errno, "read '{}/artifacts'", path_);
    auto entries = os::Directory(std::move(fd), std::nullopt).List(2 * bounds_.files);
    for (const auto& entry : entries.files) {
      if (files.size() < bounds_.files && CheckArtifactName(entry.path)) files[entry.path] = entry.size;
    }
  }
  std::vector<std::string> odd;  // names of which files and index differ
  {
    TRY(auto rows, index_.Prepare("SELECT name, size FROM artifacts"));
    for (;;) {
      TRY(const bool more, rows.Step());
      if (!more) break;
      auto file = files.find(rows.Text(0));
      if (file == files.end() || file->second != static_cast<uint64_t>(rows.Integer(1))) odd.push_back(rows.Text(0));
      if (file != files.end() && file->second == static_cast<uint64_t>(rows.Integer(1))) files.erase(file);
    }
  }
  for (const auto& [name, size] : files) odd.push_back(name);
  if (odd.empty()) return {};
  // The truth, now that no other process saves.
  TRY(auto transaction, store::Transaction::Begin(index_));
  for (const std::string& name : odd) {
    auto opened = directory_.OpenWithInfo("artifacts/" + name);
    if (!opened) {
      TRY_VOID(index_.Run("DELETE FROM artifacts WHERE name = ?", name));
      continue;
    }
    int64_t changed_ns = 0;
    TRY(auto known, Row(name, &changed_ns));
    if (known && known->size == opened->info.size && changed_ns == opened->info.modified_ns) continue;
    const Artifact artifact = Derive(name, opened->info, opened->fd.get(), std::move(known));
    TRY_VOID(PutRow(artifact, opened->info.modified_ns));
  }
  return transaction.Commit();
}

Result<ArtifactPage> FileStorage::List(const std::string& after, size_t limit) {
  const std::scoped_lock lock(mutex_);
  if (after.empty()) TRY_VOID(Reconcile());
  ArtifactPage page;
  size_t bytes = 0;
  TRY(auto rows, index_.Prepare("SELECT name, size, kind, origin, created_ms, updated_ms, description, metadata FROM "
                                "artifacts WHERE name > ? ORDER BY name"));
  rows.Bind(after);
  for (;;) {
    TRY(const bool more, rows.Step());
    if (!more) return page;
    if (page.artifacts.size() >= limit || bytes > kPageBytes) {
      page.more = true;
      return page;
    }
    page.artifacts.push_back({.name = rows.Text(0),
                              .kind = ParseKind(rows.Text(2)).value_or(Kind::kBytes),
                              .origin = rows.Text(3) == ToString(Origin::kJail) ? Origin::kJail : Origin::kCaller,
                              .size = static_cast<uint64_t>(rows.Integer(1)),
                              .description = rows.Text(6),
                              .metadata = rows.Text(7),
                              .created_ms = rows.Integer(4),
                              .updated_ms = rows.Integer(5)});
    const Artifact& last = page.artifacts.back();
    bytes += last.name.size() + last.description.size() + last.metadata.size() + 128;
  }
}

Result<bool> FileStorage::Delete(const std::string& name) {
  TRY_VOID(CheckArtifactName(name));
  const std::scoped_lock lock(mutex_);
  TRY(auto transaction, store::Transaction::Begin(index_));
  auto info = directory_.Stat("artifacts/" + name);
  const bool found = info && info->type == os::EntryType::kFile;
  if (found) TRY_VOID(directory_.RemoveFile("artifacts/" + name));
  TRY_VOID(index_.Run("DELETE FROM artifacts WHERE name = ?", name));
  TRY_VOID(transaction.Commit());
  TidyLog();
  // Directories that are empty now; another process may be about to use one.
  for (std::string rest = name; found && rest.contains('/');) {
    rest.resize(rest.rfind('/'));
    if (!directory_.Remove("artifacts/" + rest)) break;
  }
  return found;
}

Result<std::string> FileStorage::PathOf(const std::string& name) {
  TRY(const LoadedArtifact loaded, Load(name));
  return fmt::format("{}/artifacts/{}", path_, name);
}

}  // namespace cella::storage
