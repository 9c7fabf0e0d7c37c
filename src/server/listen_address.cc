#include "server/listen_address.h"

#include <arpa/inet.h>

#include "http/address.h"
#include "policy/names.h"

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
  constexpr const char* kForms = "write unix:/PATH, 127.0.0.1:PORT, [::1]:PORT or localhost:PORT";
  TRY(http::Address address, http::ParseAddress(text));
  if (address.is_unix()) {
    if (address.path.starts_with('/')) return ListenAddress{.path = std::move(address.path), .host = "", .port = 0};
    return Err(ErrorCode::kInvalid, "'{}' is not an address: a Unix socket is unix:/absolute/path",
               policy::Shown(text));
  }
  std::string host = address.host == "localhost" ? "localhost" : CanonicalAddress(address.host);
  if (host.empty() || text.starts_with(':')) {
    return Err(ErrorCode::kInvalid, "'{}' is not an address to listen on: {} (names are not looked up)",
               policy::Shown(text), kForms);
  }
  return ListenAddress{.path = "", .host = std::move(host), .port = address.port};
}

}  // namespace cella::server
