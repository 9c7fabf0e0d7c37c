#include "store/connection.h"

#include <unistd.h>

namespace cella::store {
namespace {

Error NoSpace(std::string_view path) {
  return {ErrorCode::kExhausted,
          fmt::format("'{}' cannot grow: its file system is full; free some space, or use a directory elsewhere", path),
          ENOSPC};
}

Error Damaged(std::string_view path, const char* what) {
  return {
      ErrorCode::kInternal,
      fmt::format("'{}' is damaged ({}): move it and its -wal and -shm files away to begin anew, or put a copy back",
                  path, what),
      0};
}

Error FromErrno(const Connection& connection, const char* what) {
  const int sys_errno = sqlite3_system_errno(connection.db);
  switch (sys_errno) {
    case ENOSPC:
    case EDQUOT: return NoSpace(connection.path);
    case EACCES:
    case EPERM:
    case EROFS: return NotWritable(connection.path, sys_errno);
    case 0: return {ErrorCode::kInternal, fmt::format("'{}': {}", connection.path, what), 0};
    default:
      return {CodeFromErrno(sys_errno), fmt::format("'{}': {}: {}", connection.path, what, ErrnoText(sys_errno)),
              sys_errno};
  }
}

}  // namespace

Connection::~Connection() {
  for (auto& [sql, statements] : idle) {
    for (sqlite3_stmt* statement : statements) sqlite3_finalize(statement);
  }
  sqlite3_close_v2(db);
}

Error NotWritable(std::string_view path, int sys_errno) {
  return {ErrorCode::kPermission,
          fmt::format("'{}' cannot be written ({}): make it and its directory writable for user id {}, or use another "
                      "directory",
                      path, ErrnoText(sys_errno), ::geteuid()),
          sys_errno};
}

Error ErrorOf(const Connection& connection, int code) {
  // Without a handle there was no memory for one.
  const char* what = connection.db != nullptr ? sqlite3_errmsg(connection.db) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_FULL: return NoSpace(connection.path);
    case SQLITE_NOMEM: return {ErrorCode::kExhausted, "out of memory", ENOMEM};
    case SQLITE_READONLY:
    case SQLITE_PERM: {
      const int sys_errno = connection.db != nullptr ? sqlite3_system_errno(connection.db) : 0;
      return NotWritable(connection.path, sys_errno == EROFS ? EROFS : EACCES);
    }
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: return FromErrno(connection, what);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kExhausted,
              fmt::format("'{}' is held by another process: end it, or try again", connection.path), EBUSY};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Damaged(connection.path, what);
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH: return {ErrorCode::kInvalid, what, 0};
    default: return {ErrorCode::kInternal, fmt::format("'{}': {}", connection.path, what), 0};
  }
}

}  // namespace cella::store
