#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "store/database.h"
#include "store/file_lock.h"
#include "store/schema.h"
#include "store/test_directory.h"
#include "store/transaction.h"

namespace cella::store {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kApplication = 0x74657374;
constexpr const char* kFirst = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE, weight REAL)";
constexpr const char* kSecond = "ALTER TABLE notes ADD COLUMN author TEXT; CREATE TABLE more (x)";

class StoreTest : public ::testing::Test {
 protected:
  Database OpenNotes() {
    Database database = Database::Open(path_).value();
    EXPECT_TRUE(Migrate(database, {kApplication, std::span(&kFirst, 1)}).has_value());
    return database;
  }

  TestDirectory directory_;
  const std::string path_ = directory_.File("test.db");
};

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST_F(StoreTest, ValuesOfEachTypeRoundTrip) {
  Database database = OpenNotes();
  const std::string odd("a\0b'\"; DROP TABLE notes; \xc3\xa9", 27);
  ASSERT_TRUE(database.Run("INSERT INTO notes VALUES (?, ?, ?)", int64_t{1} << 62, odd, 1.5));
  ASSERT_TRUE(database.Run("INSERT INTO notes VALUES (?, ?, ?)", 2, std::optional<std::string>(), std::nullopt));
  ASSERT_TRUE(database.Run("INSERT INTO notes VALUES (?, ?, NULL)", 3, std::string_view()));
  auto rows = database.Prepare("SELECT id, text, weight FROM notes ORDER BY id DESC");
  ASSERT_TRUE(rows->Step().value());
  EXPECT_EQ(rows->Integer(0), int64_t{1} << 62);
  EXPECT_EQ(rows->Text(1), odd);
  EXPECT_EQ(rows->Real(2), 1.5);
  ASSERT_TRUE(rows->Step().value());
  EXPECT_EQ(rows->MaybeText(1), "");  // empty is not NULL
  ASSERT_TRUE(rows->Step().value());
  EXPECT_EQ(rows->MaybeText(1), std::nullopt);
  EXPECT_EQ(rows->MaybeInteger(2), std::nullopt);
  EXPECT_FALSE(rows->Step().value());
}

TEST_F(StoreTest, InvalidPositionIsAnError) {
  Database database = OpenNotes();
  EXPECT_FALSE(database.Run("INSERT INTO notes (id) VALUES (?)", 1, 2).has_value());
  EXPECT_EQ(database.Number("SELECT count(*) FROM notes").value(), 0);
}

TEST_F(StoreTest, StatementIsPreparedOnceAndResetsItsValues) {
  Database database = OpenNotes();
  ASSERT_TRUE(database.Run("INSERT INTO notes (id, text) VALUES (?, ?)", 1, "one"));
  ASSERT_TRUE(database.Run("INSERT INTO notes (id, text) VALUES (?, ?)", 2));
  EXPECT_EQ(database.Number("SELECT count(*) FROM notes WHERE text IS NULL").value(), 1);
  // Two at once of the same text are two statements.
  auto outer = database.Prepare("SELECT id FROM notes ORDER BY id");
  ASSERT_TRUE(outer->Step().value());
  EXPECT_EQ(database.Number("SELECT id FROM notes ORDER BY id").value(), 1);
  EXPECT_EQ(outer->Integer(0), 1);
}

TEST_F(StoreTest, ConstraintViolationIsAnInvalidRequest) {
  Database database = OpenNotes();
  ASSERT_TRUE(database.Run("INSERT INTO notes (text) VALUES (?)", "same"));
  Status again = database.Run("INSERT INTO notes (text) VALUES (?)", "same");
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kInvalid);
}

TEST_F(StoreTest, UncommittedChangesAreRolledBack) {
  Database database = OpenNotes();
  {
    auto transaction = Transaction::Begin(database);
    ASSERT_TRUE(database.Run("INSERT INTO notes (id) VALUES (1)"));
  }
  EXPECT_FALSE(database.in_transaction());
  {
    auto transaction = Transaction::Begin(database);
    {
      auto part = Savepoint::Begin(database);
      ASSERT_TRUE(database.Run("INSERT INTO notes (id) VALUES (2)"));
    }
    auto part = Savepoint::Begin(database);
    ASSERT_TRUE(database.Run("INSERT INTO notes (id) VALUES (3)"));
    ASSERT_TRUE(part->Keep());
    ASSERT_TRUE(transaction->Commit());
  }
  EXPECT_EQ(database.Number("SELECT sum(id) FROM notes").value(), 3);
}

TEST_F(StoreTest, ReaderSeesCommittedRowsAndCannotWrite) {
  Database writer = OpenNotes();
  Database reader = Database::Open(path_, {.access = Access::kReadOnly}).value();
  auto transaction = Transaction::Begin(writer);
  ASSERT_TRUE(writer.Run("INSERT INTO notes (id) VALUES (1)"));
  EXPECT_EQ(reader.Number("SELECT count(*) FROM notes").value(), 0);
  ASSERT_TRUE(transaction->Commit());
  EXPECT_EQ(reader.Number("SELECT count(*) FROM notes").value(), 1);
  Status written = reader.Run("DELETE FROM notes");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kPermission);
}

TEST_F(StoreTest, FilesArePrivate) {
  const mode_t before = ::umask(0);
  {
    Database database = OpenNotes();
    EXPECT_EQ(ModeOf(path_), 0600u);
    EXPECT_EQ(ModeOf(path_ + "-wal"), 0600u);
    EXPECT_EQ(ModeOf(path_ + "-shm"), 0600u);
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  Database again = OpenNotes();
  EXPECT_EQ(ModeOf(path_), 0600u);
  ::umask(before);
}

TEST_F(StoreTest, DescriptorsAreCloseOnExec) {
  Database database = OpenNotes();
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (!std::filesystem::read_symlink(entry, ignored).string().starts_with(path_)) continue;
    ++seen;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_GE(seen, 2);
}

TEST_F(StoreTest, OlderFileIsMigrated) {
  {
    Database database = OpenNotes();
    ASSERT_TRUE(database.Run("INSERT INTO notes (id, text) VALUES (1, 'kept')"));
  }
  Database database = Database::Open(path_).value();
  const char* steps[] = {kFirst, kSecond};
  ASSERT_TRUE(Migrate(database, {kApplication, steps}));
  EXPECT_EQ(database.Number("PRAGMA user_version").value(), 2);
  EXPECT_EQ(database.Number("SELECT count(*) FROM notes WHERE text = 'kept' AND author IS NULL").value(), 1);
}

TEST_F(StoreTest, FailedMigrationKeepsTheFile) {
  {
    OpenNotes();
  }
  Database database = Database::Open(path_).value();
  const char* steps[] = {kFirst, "CREATE TABLE half (x); CREATE TABLE notes (x)"};
  Status status = Migrate(database, {kApplication, steps});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("format 2"));
  EXPECT_EQ(database.Number("PRAGMA user_version").value(), 1);
  EXPECT_EQ(database.Number("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").value(), 0);
}

TEST_F(StoreTest, RejectsNewerFileByName) {
  {
    Database database = OpenNotes();
    ASSERT_TRUE(database.Execute("PRAGMA user_version = 9"));
  }
  Database database = Database::Open(path_).value();
  Status status = Migrate(database, {kApplication, std::span(&kFirst, 1)});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("newer version (format 9"));
  EXPECT_THAT(status.error().message, HasSubstr(path_));
}

TEST_F(StoreTest, RejectsFileOfAnotherProgramAndKeepsIt) {
  {
    Database database = Database::Open(path_).value();
    ASSERT_TRUE(database.Execute("CREATE TABLE bookmarks (url)"));
  }
  Database database = Database::Open(path_).value();
  Status status = Migrate(database, {kApplication, std::span(&kFirst, 1)});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(database.Number("SELECT count(*) FROM sqlite_schema").value(), 1);
}

TEST_F(StoreTest, RejectsFileThatIsNotADatabase) {
  std::ofstream(path_) << std::string(8192, 'x');
  auto database = Database::Open(path_);
  ASSERT_FALSE(database.has_value());
  EXPECT_THAT(database.error().message, HasSubstr("damaged"));
  EXPECT_THAT(database.error().message, HasSubstr("move it"));
}

TEST_F(StoreTest, DamageIsReportedWhenRead) {
  {
    Database database = OpenNotes();
    for (int i = 0; i < 2000; ++i) ASSERT_TRUE(database.Run("INSERT INTO notes (text) VALUES (?)", std::to_string(i)));
  }
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (int page = 2; page < 12; ++page) {
    file.seekp(page * 4096);
    file << std::string(4096, '\xee');
  }
  file.close();
  auto database = Database::Open(path_);
  ASSERT_TRUE(database.has_value());
  auto count = database->Number("SELECT sum(length(text)) FROM notes");
  ASSERT_FALSE(count.has_value());
  EXPECT_THAT(count.error().message, HasSubstr("damaged"));
}

TEST_F(StoreTest, UnwritableDirectoryErrorNamesTheRemedy) {
  {
    Database database = OpenNotes();
  }
  // The file itself is writable for whom the child will be; there is no place for the log.
  if (::geteuid() == 0) ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0555), 0);
  auto refuses = [](const std::string& path) {
    auto database = Database::Open(path);
    return !database && database.error().code == ErrorCode::kPermission &&
           database.error().message.contains("writable for user id");
  };
  EXPECT_TRUE(InUnprivilegedChild([&] { return refuses(directory_.File("new.db")); }));
  EXPECT_TRUE(InUnprivilegedChild([&] { return refuses(path_); }));
}

TEST_F(StoreTest, MissingDirectoryIsNotFound) {
  auto database = Database::Open(directory_.File("none/test.db"));
  ASSERT_FALSE(database.has_value());
  EXPECT_EQ(database.error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, RejectsDirectoryAtTheFilesPath) {
  auto database = Database::Open(directory_.path());
  ASSERT_FALSE(database.has_value());
  EXPECT_EQ(database.error().code, ErrorCode::kInvalid);
}

TEST_F(StoreTest, FullDiskIsReportedAndRecoveredFrom) {
  Database database = OpenNotes();
  ASSERT_TRUE(database.Number("PRAGMA max_page_count = 8"));
  const std::string large(100000, 'x');
  Status status = database.Run("INSERT INTO notes (text) VALUES (?)", large);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("free some space"));
  ASSERT_TRUE(database.Number("PRAGMA max_page_count = 1000"));
  EXPECT_TRUE(database.Run("INSERT INTO notes (text) VALUES (?)", large).has_value());
}

TEST_F(StoreTest, LockOfAnotherProcessIsAwaitedThenReported) {
  Database holder = OpenNotes();
  Database other = Database::Open(path_, {.busy_timeout = std::chrono::milliseconds(1)}).value();
  auto held = Transaction::Begin(holder);
  auto refused = Transaction::Begin(other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  ASSERT_TRUE(held->Commit());
  EXPECT_TRUE(Transaction::Begin(other).has_value());
}

TEST_F(StoreTest, OnlyACheckpointMovesTheWalIntoTheFile) {
  Database database = OpenNotes();
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(database.Run("INSERT INTO notes (text) VALUES (?)", std::to_string(i)));
  EXPECT_GE(database.wal_pages(), 1500);
  ASSERT_TRUE(database.Checkpoint());
  EXPECT_EQ(database.wal_pages(), 0);
  ASSERT_TRUE(database.Run("INSERT INTO notes (text) VALUES ('next')"));
  EXPECT_LT(database.wal_pages(), 10);
}

TEST_F(StoreTest, LockHasOneHolder) {
  const std::string path = directory_.File("lock");
  {
    auto lock = FileLock::Take(path);
    ASSERT_TRUE(lock.has_value());
    auto second = FileLock::Take(path);
    ASSERT_FALSE(second.has_value());
    EXPECT_THAT(second.error().message, HasSubstr("held by another process"));
  }
  EXPECT_TRUE(FileLock::Take(path).has_value());
}

}  // namespace
}  // namespace cella::store
