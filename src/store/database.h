// One connection to an SQLite file: write-ahead log, synchronous NORMAL (what was committed survives the death of the
// process), foreign keys on, mode 0600. Used by one thread at a time, together with its statements and transactions.
// Errors name the file and the remedy: full disk (kExhausted), unwritable directory (kPermission), damage (kInternal).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/statement.h"

namespace cella::store {

struct Connection;

enum class Access { kReadWrite, kReadOnly };

struct OpenOptions {
  Access access = Access::kReadWrite;
  std::chrono::milliseconds busy_timeout = std::chrono::seconds(5);  // for a lock that another connection holds
};

class Database {
 public:
  // Makes the file if need be, but not its directory.
  static Result<Database> Open(const std::string& path, const OpenOptions& options = {});
  Database(Database&&) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  // A statement is kept prepared for the next time: use texts of the program, never composed ones.
  Result<Statement> Prepare(std::string_view sql);

  // Binds, and steps to the end.
  template <typename... Values>
  Status Run(std::string_view sql, const Values&... values) {
    TRY(Statement statement, Prepare(sql));
    statement.Bind(values...);
    return statement.Finish();
  }

  // The first column of the first row; 0 when there is none.
  template <typename... Values>
  Result<int64_t> Number(std::string_view sql, const Values&... values) {
    TRY(Statement statement, Prepare(sql));
    statement.Bind(values...);
    TRY(bool row, statement.Step());
    return row ? statement.Integer(0) : 0;
  }

  // Any number of statements, not kept.
  Status Execute(const std::string& script);

  // Rows that the last INSERT, UPDATE or DELETE touched.
  int64_t changes() const;
  int64_t last_insert_rowid() const;
  // False as well when SQLite gave a transaction up by itself, as it may at a full disk.
  bool in_transaction() const;
  const std::string& path() const;

  // The log is moved into the file by Checkpoint only (and by the last connection that closes), never by a commit: who
  // commits should not wait for the disk.
  int wal_pages() const;
  Status Checkpoint();

 private:
  explicit Database(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace cella::store
