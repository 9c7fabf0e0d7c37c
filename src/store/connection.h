// What Database, Statement and Transaction share: the handle, the statements that are prepared and idle, and the words
// for what SQLite reports. Internal to src/store.
#pragma once

#include <sqlite3.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::store {

struct Connection {
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  sqlite3* db = nullptr;
  std::string path;
  int wal_pages = 0;
  // By their text; several when one was in use while another was asked for.
  std::map<std::string, std::vector<sqlite3_stmt*>, std::less<>> idle;
};

// `code` is what the failed call returned; the rest of the story is in the connection.
Error ErrorOf(const Connection& connection, int code);

inline std::unexpected<Error> Failure(const Connection& connection, int code) {
  return std::unexpected(ErrorOf(connection, code));
}

// The state directory does not let us write.
Error NotWritable(std::string_view path, int sys_errno);

}  // namespace cella::store
