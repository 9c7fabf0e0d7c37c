// Where a server listens: "unix:PATH", "127.0.0.1:8080", "[::1]:8080", "localhost:8080". Addresses only, no names to be
// looked up: what is bound must not depend on DNS. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::server {

struct ListenAddress {
  std::string path;  // of a Unix socket; empty: it is TCP
  std::string host;  // "127.0.0.1", "::1", "localhost"; without brackets
  uint16_t port = 0;

  bool is_unix() const { return !path.empty(); }
  // 127.0.0.0/8, ::1, localhost.
  bool is_loopback() const;
  // 0.0.0.0 or ::
  bool is_wildcard() const;
};

Result<ListenAddress> ParseListenAddress(std::string_view text);

// An IPv4 or IPv6 address in its shortest form; empty: it is none.
std::string CanonicalAddress(std::string_view text);

}  // namespace cella::server
