// What one connection, and all of them together, may take. Everything from a client is bounded by one of these.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cella::http {

struct Limits {
  size_t header_bytes = size_t{16} << 10;                           // 431 beyond
  std::chrono::nanoseconds header_time = std::chrono::seconds(10);  // for a whole head, and for the TLS handshake
  std::chrono::nanoseconds body_stall = std::chrono::seconds(30);   // no byte of a body for so long: 408
  std::chrono::nanoseconds write_stall = std::chrono::seconds(60);  // no byte taken for so long: given up
  std::chrono::nanoseconds idle = std::chrono::seconds(75);         // between requests
  size_t connections = 10240;                                       // 503 beyond
  uint64_t bodies = uint64_t{256} << 20;                            // held at a time, of all connections: 503 beyond
  uint64_t requests_per_connection = 0;                             // 0: any number
};

}  // namespace cella::http
