#include "zmtp/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "async/descriptor.h"

namespace cella::zmtp {
namespace {

async::Task<Result<UniqueFd>> ConnectTo(async::Loop& loop, const sockaddr* address, socklen_t size) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) co_return SysErr(errno, "make a socket");
  if (connect(fd.get(), address, size) == 0) co_return fd;
  if (errno != EINPROGRESS) co_return SysErr(errno, "connect");
  // A second descriptor, since the first one leaves with its owner while the loop still knows the other.
  async::Descriptor waiting(loop, UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)), async::Sharing::kOurs);
  const bool ready = co_await waiting.Writable();
  if (!ready) co_return Err(ErrorCode::kClosed, "cancelled");
  int error = 0;
  socklen_t error_size = sizeof error;
  (void)getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error != 0) co_return SysErr(error, "connect");
  co_return fd;
}

// The file that was looked at is the file that is connected to, whatever happens to its name meanwhile.
Result<sockaddr_un> Resolve(const Endpoint& endpoint, UniqueFd& file) {
  if (endpoint.name.empty() || endpoint.name.find('/') != std::string::npos) {
    return Err(ErrorCode::kInvalid, "'{}' is no name of a socket", endpoint.name);
  }
  file.Reset(openat(endpoint.directory->get(), endpoint.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!file || fstat(file.get(), &info) < 0) return SysErr(errno, "socket '{}'", endpoint.name);
  if (!S_ISSOCK(info.st_mode)) return Err(ErrorCode::kInvalid, "'{}' is no socket", endpoint.name);
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  fmt::format_to_n(to.sun_path, sizeof to.sun_path - 1, "/proc/self/fd/{}", file.get());
  return to;
}

}  // namespace

std::string ToString(const Endpoint& endpoint) {
  return endpoint.directory ? "ipc:" + endpoint.name : fmt::format("tcp:127.0.0.1:{}", endpoint.port);
}

async::Task<Result<UniqueFd>> Connect(async::Loop& loop, const Endpoint& endpoint) {
  if (endpoint.directory) {
    UniqueFd file;
    CO_TRY(const sockaddr_un to, Resolve(endpoint, file));
    auto connected = co_await ConnectTo(loop, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    co_return connected;
  }
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(endpoint.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto connected = co_await ConnectTo(loop, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  const int on = 1;
  if (connected) (void)setsockopt(connected->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  co_return connected;
}

}  // namespace cella::zmtp
