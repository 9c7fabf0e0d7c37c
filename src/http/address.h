// Where a server listens or a client connects: "unix:PATH" or "HOST:PORT". A value; parsing resolves nothing.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::http {

struct Address {
  enum class Kind { kUnix, kTcp };

  Kind kind = Kind::kTcp;
  std::string path;  // kUnix
  std::string host;  // kTcp: a name or an IP address, without brackets
  uint16_t port = 0;

  bool is_unix() const { return kind == Kind::kUnix; }
  // "unix:/run/cella.sock", "127.0.0.1:8080", "[::1]:8080": what ParseAddress reads.
  std::string ToString() const;
  bool operator==(const Address&) const = default;
};

// A path of a Unix socket may be this long; the kernel's field has one more byte, for the end.
constexpr size_t kMaxSocketPath = 107;

// Port 0 asks for a free one. An empty host is loopback: reaching beyond this machine must be asked for by name.
Result<Address> ParseAddress(std::string_view text);

// The numeric form of an address from the kernel (getsockname, accept).
Address FromSocketAddress(const sockaddr_storage& address);

// A Unix socket, or a numeric address of this machine's loopback. A name is not resolved: "localhost" is not one.
bool IsLocal(const Address& address);

}  // namespace cella::http
