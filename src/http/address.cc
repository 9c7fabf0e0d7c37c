#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>

namespace cella::http {
namespace {

static_assert(kMaxSocketPath + 1 == sizeof(sockaddr_un::sun_path));

Result<Address> ParseUnix(std::string_view path) {
  if (path.empty()) return Err(ErrorCode::kInvalid, "'unix:' needs a path, as in unix:/run/cella.sock");
  if (path.find('\0') != path.npos) return Err(ErrorCode::kInvalid, "a socket path must not hold a zero byte");
  if (path.size() > kMaxSocketPath) {
    return Err(ErrorCode::kInvalid,
               "the socket path '{}' has {} bytes; Linux allows {}: choose a shorter one, or a shorter directory", path,
               path.size(), kMaxSocketPath);
  }
  return Address{.kind = Address::Kind::kUnix, .path = std::string(path), .host = "", .port = 0};
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

}  // namespace

std::string Address::ToString() const {
  if (is_unix()) return "unix:" + path;
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<Address> ParseAddress(std::string_view text) {
  if (text.starts_with("unix:")) return ParseUnix(text.substr(5));
  auto wrong = [&](std::string_view why) {
    return Err(ErrorCode::kInvalid, "'{}' {}: an address is unix:PATH, HOST:PORT or [IPV6]:PORT", text, why);
  };

  std::string_view host, port_text;
  if (text.starts_with('[')) {
    size_t close = text.find("]:");
    if (close == text.npos) return wrong("has no port behind its brackets");
    host = text.substr(1, close - 1);
    port_text = text.substr(close + 2);
    in6_addr parsed;
    if (inet_pton(AF_INET6, std::string(host).c_str(), &parsed) != 1) return wrong("has no IPv6 address in brackets");
  } else {
    size_t colon = text.rfind(':');
    if (colon == text.npos) return wrong("has no port");
    host = text.substr(0, colon);
    port_text = text.substr(colon + 1);
    if (host.find(':') != host.npos) return wrong("is an IPv6 address without brackets");
    for (char c : host) {
      if (!IsHostCharacter(c)) return wrong("has a host with a character that host names do not have");
    }
    if (host.empty()) host = "127.0.0.1";
  }

  uint16_t port = 0;
  auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) {
    return wrong("has a port that is not a number from 0 to 65535");
  }
  return Address{.kind = Address::Kind::kTcp, .path = "", .host = std::string(host), .port = port};
}

Address FromSocketAddress(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {.kind = Address::Kind::kTcp, .path = "", .host = text, .port = ntohs(v4.sin_port)};
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return {.kind = Address::Kind::kTcp, .path = "", .host = text, .port = ntohs(v6.sin6_port)};
  }
  const auto& local = reinterpret_cast<const sockaddr_un&>(address);
  return {.kind = Address::Kind::kUnix, .path = local.sun_path, .host = "", .port = 0};
}

bool IsLocal(const Address& address) {
  if (address.is_unix()) return true;
  in_addr v4;
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, address.host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

}  // namespace cella::http
