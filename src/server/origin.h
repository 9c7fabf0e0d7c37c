// Hosts and origins as HTTP headers name them, in one normal form so that they can be compared. Pure; everything here
// comes from strangers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cella::server {

// "example.com", "127.0.0.1:8080", "[::1]:8080".
struct Authority {
  std::string host;  // lower case, no brackets, no trailing dot; an address in its shortest form
  std::optional<uint16_t> port;

  bool is_address = false;  // IPv4 or IPv6, not a name
  bool operator==(const Authority&) const = default;
};
std::optional<Authority> ParseAuthority(std::string_view text);

// "https://example.com:8443"; the port is always filled in. "null" is none.
struct Origin {
  std::string scheme;  // "http" or "https"
  Authority authority;
  bool operator==(const Origin&) const = default;
};
std::optional<Origin> ParseOrigin(std::string_view text);

}  // namespace cella::server
