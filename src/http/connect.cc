#include "http/connect.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/descriptor.h"

namespace cella::http {

namespace asio = boost::asio;
using async::Task;

namespace {

Task<Result<UniqueFd>> ConnectTo(async::Loop& loop, const sockaddr* address, socklen_t size) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) co_return SysErr(errno, "make a socket");
  if (connect(fd.get(), address, size) == 0) co_return fd;
  if (errno != EINPROGRESS) co_return SysErr(errno, "connect");
  // A second descriptor, since the first one leaves with its owner while the loop still knows the other.
  async::Descriptor waiting(loop, UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)), async::Sharing::kOurs);
  bool ready = co_await waiting.Writable();
  if (!ready) co_return Err(ErrorCode::kClosed, "cancelled");
  int error = 0;
  socklen_t error_size = sizeof error;
  (void)getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error != 0) co_return SysErr(error, "connect");
  co_return fd;
}

Task<Result<UniqueFd>> ConnectTcp(async::Loop& loop, const Address& address) {
  asio::ip::tcp::resolver resolver(loop.context());
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  auto found = co_await resolver.async_resolve(address.host, std::to_string(address.port), token);
  if (error) co_return Err(ErrorCode::kNotFound, "'{}' cannot be resolved: {}", address.host, error.message());
  Result<UniqueFd> last = Err(ErrorCode::kNotFound, "'{}' has no address", address.host);
  for (const auto& entry : found) {
    auto endpoint = entry.endpoint();
    last = co_await ConnectTo(loop, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    if (!last) continue;
    const int on = 1;
    (void)setsockopt(last->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    break;
  }
  co_return last;
}

}  // namespace

Task<Result<UniqueFd>> Connect(async::Loop& loop, const Address& address) {
  co_await asio::this_coro::throw_if_cancelled(false);
  if (!address.is_unix()) {
    Result<UniqueFd> connected = co_await ConnectTcp(loop, address);
    co_return connected;
  }
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  address.path.copy(to.sun_path, kMaxSocketPath);
  Result<UniqueFd> connected = co_await ConnectTo(loop, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  co_return connected;
}

}  // namespace cella::http
