#include "http/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

#include "http/socket_file.h"

namespace cella::http {
namespace {

constexpr int kFirstInherited = 3;
constexpr int kMaxInherited = 64;

Result<Address> BoundAddress(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) < 0) return SysErr(errno, "getsockname");
  return FromSocketAddress(address);
}

Result<UniqueFd> ListenOn(const addrinfo& one, int backlog, const std::string& name) {
  UniqueFd fd(socket(one.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SysErr(errno, "make a socket for '{}'", name);
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // [::] is IPv6 alone: for both families there are two listeners.
  if (one.ai_family == AF_INET6) (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd.get(), one.ai_addr, one.ai_addrlen) < 0 || listen(fd.get(), backlog) < 0) {
    return SysErr(errno, "listen on '{}'", name);
  }
  return fd;
}

std::optional<int> ParseNumber(const char* text) {
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, number).ptr != end || end == text) return std::nullopt;
  return number;
}

}  // namespace

Listener::Listener(UniqueFd fd, Address address, std::optional<Tls> tls, std::unique_ptr<SocketFile> file)
    : file_(std::move(file)), fd_(std::move(fd)), address_(std::move(address)), tls_(std::move(tls)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::Open(const Address& address, const ListenOptions& options) {
  if (!address.is_unix()) return OpenTcp(address, options);
  if (options.tls) return Err(ErrorCode::kInvalid, "TLS is for TCP: '{}' needs none", address.ToString());
  TRY(SocketFile::Bound bound, SocketFile::Bind(address.path, options.socket_mode));
  if (listen(bound.fd.get(), options.backlog) < 0) return SysErr(errno, "listen on '{}'", address.ToString());
  return Listener(std::move(bound.fd), address, std::nullopt, std::move(bound.file));
}

Result<Listener> Listener::OpenTcp(const Address& address, const ListenOptions& options) {
  const std::string name = address.ToString();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) return Err(ErrorCode::kNotFound, "listen on '{}': {}", name, gai_strerror(failed));
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);

  Error last{ErrorCode::kNotFound, fmt::format("listen on '{}': it has no address", name), 0};
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    auto fd = ListenOn(*one, options.backlog, name);
    if (!fd) {
      last = std::move(fd.error());
      continue;
    }
    TRY(Address real, BoundAddress(fd->get()));
    return Listener(std::move(*fd), std::move(real), options.tls, nullptr);
  }
  return std::unexpected(std::move(last));
}

Result<Listener> Listener::Adopt(UniqueFd fd, std::optional<Tls> tls) {
  int listening = 0, type = 0;
  socklen_t size = sizeof listening;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0) {
    return SysErr(errno, "the inherited descriptor {} is not a socket", fd.get());
  }
  size = sizeof type;
  (void)getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size);
  if (listening == 0 || type != SOCK_STREAM) {
    return Err(ErrorCode::kInvalid,
               "the inherited socket {} does not listen for streams: its unit needs ListenStream=", fd.get());
  }
  int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd.get(), F_SETFD, FD_CLOEXEC) < 0) {
    return SysErr(errno, "set the flags of the inherited socket {}", fd.get());
  }
  TRY(Address address, BoundAddress(fd.get()));
  if (address.is_unix() && tls) return Err(ErrorCode::kInvalid, "TLS is for TCP: '{}' needs none", address.ToString());
  return Listener(std::move(fd), std::move(address), std::move(tls), nullptr);
}

Result<std::vector<UniqueFd>> InheritedSockets(const char* listen_pid, const char* listen_fds) {
  std::vector<UniqueFd> sockets;
  auto pid = ParseNumber(listen_pid), count = ParseNumber(listen_fds);
  // They are for another process when its number is not ours: an environment is inherited further than descriptors.
  if (!pid || !count || *pid != getpid()) return sockets;
  if (*count < 0 || *count > kMaxInherited) {
    return Err(ErrorCode::kInvalid, "LISTEN_FDS is {}: at most {} sockets can be inherited", *count, kMaxInherited);
  }
  for (int fd = kFirstInherited; fd < kFirstInherited + *count; ++fd) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return SysErr(errno, "the inherited descriptor {}", fd);
    sockets.emplace_back(fd);
  }
  return sockets;
}

}  // namespace cella::http
