#include "http/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "http/address.h"

namespace cella::http {
namespace {

std::string LockPath(const std::string& path) { return path + ".lock"; }

sockaddr_un MakeAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), kMaxSocketPath));
  return address;
}

bool IsSameFile(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// Held by one server per path, from before it looks at the file until after it removed it: what lies between looking
// and binding cannot be done by two at once. The kernel drops it when its holder dies.
Result<UniqueFd> TakeLock(const std::string& path) {
  const std::string lock_path = LockPath(path);
  for (;;) {
    UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!lock) return SysErr(errno, "open '{}', which keeps two servers from one socket", lock_path);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return Err(ErrorCode::kExhausted, "another server has 'unix:{}'", path);
      return SysErr(errno, "lock '{}'", lock_path);
    }
    // The one before us may have removed the file between our open and our lock.
    struct stat held, named;
    if (fstat(lock.get(), &held) < 0) return SysErr(errno, "stat '{}'", lock_path);
    if (lstat(lock_path.c_str(), &named) == 0 && IsSameFile(held, named)) return lock;
  }
}

// Removes what a dead server left; anything else is left alone.
Status RemoveStale(const std::string& path) {
  struct stat before, after;
  if (lstat(path.c_str(), &before) < 0) return errno == ENOENT ? Status{} : SysErr(errno, "stat '{}'", path);
  if (!S_ISSOCK(before.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' exists and is not a socket: choose another path or remove it", path);
  }
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return SysErr(errno, "make a socket");
  sockaddr_un address = MakeAddress(path);
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN) {
    return Err(ErrorCode::kExhausted, "another server answers on 'unix:{}'", path);
  }
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED) return SysErr(errno, "ask who listens on 'unix:{}'", path);
  if (lstat(path.c_str(), &after) < 0 || !IsSameFile(before, after)) {
    return Err(ErrorCode::kExhausted, "'{}' changed while it was looked at", path);
  }
  if (unlink(path.c_str()) < 0 && errno != ENOENT) return SysErr(errno, "remove the old socket '{}'", path);
  return {};
}

}  // namespace

Result<SocketFile::Bound> SocketFile::Bind(const std::string& path, mode_t mode) {
  TRY(UniqueFd lock, TakeLock(path));
  std::unique_ptr<SocketFile> file(new SocketFile(path, std::move(lock)));
  TRY_VOID(RemoveStale(path));

  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SysErr(errno, "make a socket");
  // bind gives the file the mode of the socket itself, less the umask. So it has its mode from its first moment, and
  // the umask, which belongs to the whole process, stays as it is.
  if (fchmod(fd.get(), mode) < 0) return SysErr(errno, "set the mode of a socket");
  sockaddr_un address = MakeAddress(path);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) {
    return SysErr(errno, "listen on 'unix:{}'", path);
  }
  struct stat made;
  if (lstat(path.c_str(), &made) < 0) return SysErr(errno, "stat '{}'", path);
  file->device_ = made.st_dev;
  file->inode_ = made.st_ino;
  if ((made.st_mode & 07777 & ~mode) != 0) {
    return Err(ErrorCode::kUnsupported, "'{}' got the mode {:o} instead of {:o}: its file system does not keep modes",
               path, made.st_mode & 07777, mode);
  }
  return Bound{std::move(fd), std::move(file)};
}

SocketFile::~SocketFile() {
  struct stat now;
  if (inode_ != 0 && lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_) {
    (void)unlink(path_.c_str());
  }
  // While the lock is still held: who opened it before finds out that it is gone, and makes another.
  (void)unlink(LockPath(path_).c_str());
}

}  // namespace cella::http
