#include "server/listen_address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <charconv>

#include "server/names.h"

namespace cella::server {

bool ListenAddress::is_loopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }

bool ListenAddress::is_wildcard() const { return host == "0.0.0.0" || host == "::"; }

std::string CanonicalAddress(std::string_view text) {
  std::string address(text);
  if (address.contains('\0')) return {};
  unsigned char bytes[sizeof(in6_addr)];
  char out[INET6_ADDRSTRLEN];
  for (int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, address.c_str(), bytes) == 1 && inet_ntop(family, bytes, out, sizeof out) != nullptr) {
      return out;
    }
  }
  return {};
}

Result<ListenAddress> ParseListenAddress(std::string_view text) {
  if (text.starts_with("unix:")) {
    std::string path(text.substr(5));
    if (!path.starts_with('/') || path.contains('\0')) {
      return Err(ErrorCode::kInvalid, "'{}' is not an address: a Unix socket is unix:/absolute/path", Shown(text));
    }
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Err(ErrorCode::kInvalid, "'{}' is too long for a Unix socket: at most {} bytes", Shown(text),
                 sizeof(sockaddr_un::sun_path) - 1);
    }
    return ListenAddress{.path = std::move(path), .host = "", .port = 0};
  }
  constexpr const char* kForms = "write unix:/PATH, 127.0.0.1:PORT, [::1]:PORT or localhost:PORT";
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return Err(ErrorCode::kInvalid, "'{}' is not an address to listen on: {}", Shown(text), kForms);
  }
  std::string_view host = text.substr(0, colon);
  std::string_view digits = text.substr(colon + 1);
  ListenAddress address;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return Err(ErrorCode::kInvalid, "'{}' is not an address to listen on: '{}' is not a port", Shown(text),
               Shown(digits));
  }
  bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  address.host = host == "localhost" ? "localhost" : CanonicalAddress(host);
  // Without brackets the last group of an IPv6 address would be taken for the port.
  if (address.host.empty() || address.host.contains(':') != brackets) {
    return Err(ErrorCode::kInvalid, "'{}' is not an address to listen on: {} (names are not looked up)", Shown(text),
               kForms);
  }
  return address;
}

}  // namespace cella::server
