// Result<T>: a value or an Error. An Error is *our* failure (a system call, a bad request); how a guest ended is never
// one of these. Context is added while the error travels up, and the edge (CLI, server) reports it once.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace cella {

enum class ErrorCode {
  kInvalid,      // the request is wrong: bad option, bad path, bad limit
  kNotFound,     // a file, interpreter or tool is missing
  kPermission,   // the kernel or the file system said no
  kUnsupported,  // this machine cannot do what was asked; the message names the remedy
  kExhausted,    // out of descriptors, memory, disk or another resource of ours
  kClosed,       // the other side went away
  kInternal,     // everything else; a bug or an unexpected kernel answer
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  int sys_errno = 0;

  // "mount '/workspace': permission denied": what we were doing, then what went wrong.
  Error WithContext(std::string_view context) && {
    message = fmt::format("{}: {}", context, message);
    return std::move(*this);
  }
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// The error code that an errno usually means to a caller.
ErrorCode CodeFromErrno(int sys_errno);

// "No such file or directory", thread-safe and never empty.
std::string ErrnoText(int sys_errno);

template <typename... Args>
std::unexpected<Error> Err(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...), 0});
}

// For a failed system call: `return SysErr(errno, "open '{}'", path);`
template <typename... Args>
std::unexpected<Error> SysErr(int sys_errno, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(
      Error{CodeFromErrno(sys_errno),
            fmt::format("{}: {}", fmt::format(format, std::forward<Args>(args)...), ErrnoText(sys_errno)), sys_errno});
}

}  // namespace cella

// TRY is a statement, not an expression, so that it reads the same inside coroutines (CO_TRY).
#define CELLA_CONCAT_(a, b) a##b
#define CELLA_CONCAT(a, b) CELLA_CONCAT_(a, b)
#define CELLA_TRY_(tmp, decl, expr, ret)                 \
  auto tmp = (expr);                                     \
  if (!tmp) ret std::unexpected(std::move(tmp.error())); \
  decl = std::move(*tmp)
#define CELLA_TRY_VOID_(expr, ret)                                                        \
  do {                                                                                    \
    if (auto status_ = (expr); !status_) ret std::unexpected(std::move(status_.error())); \
  } while (false)

#define TRY(decl, expr) CELLA_TRY_(CELLA_CONCAT(try_result_, __LINE__), decl, expr, return)
#define TRY_VOID(expr) CELLA_TRY_VOID_(expr, return)
#define CO_TRY(decl, expr) CELLA_TRY_(CELLA_CONCAT(try_result_, __LINE__), decl, expr, co_return)
#define CO_TRY_VOID(expr) CELLA_TRY_VOID_(expr, co_return)
