#include "store/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include "store/connection.h"

namespace cella::store {

Result<FileLock> FileLock::Take(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd && (errno == EACCES || errno == EPERM || errno == EROFS)) return std::unexpected(NotWritable(path, errno));
  if (!fd && errno == ENOENT)
    return Err(ErrorCode::kNotFound, "'{}' cannot be made: its directory does not exist", path);
  if (!fd) return SysErr(errno, "open '{}'", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
    if (errno == EWOULDBLOCK) {
      return Err(ErrorCode::kExhausted, "'{}' is held by another process: end that, or use another directory", path);
    }
    return SysErr(errno, "lock '{}'", path);
  }
  return FileLock(std::move(fd));
}

}  // namespace cella::store
