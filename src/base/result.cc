#include "base/result.h"

#include <system_error>

namespace cella {

ErrorCode CodeFromErrno(int sys_errno) {
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH: return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
    case EXDEV:  // openat2 with RESOLVE_BENEATH: the path leaves the directory
    case ELOOP:  // openat2 with RESOLVE_NO_SYMLINKS
      return ErrorCode::kPermission;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT: return ErrorCode::kUnsupported;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EAGAIN: return ErrorCode::kExhausted;
    case EPIPE:
    case ECONNRESET: return ErrorCode::kClosed;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR: return ErrorCode::kInvalid;
    default: return ErrorCode::kInternal;
  }
}

std::string ErrnoText(int sys_errno) { return std::generic_category().message(sys_errno); }

}  // namespace cella
