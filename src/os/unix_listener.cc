#include "os/unix_listener.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace cella::os {

Result<UniqueFd> ListenUnix(const std::string& path, int backlog) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Err(ErrorCode::kInvalid, "'{}' is too long for a socket: {} bytes are the most; set TMPDIR", path,
               sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) return SysErr(errno, "make a socket");
  (void)unlink(path.c_str());
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return SysErr(errno, "bind '{}'", path);
  }
  if (listen(listener.get(), backlog) < 0) return SysErr(errno, "listen on '{}'", path);
  return listener;
}

}  // namespace cella::os
