// SHA-256 (FIPS 180-4): names files by their content and keeps tokens without keeping their text. Plain values, safe
// from any thread; the time it takes depends on the length of the data alone. Nothing is wiped: that is the caller's
// part.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cella {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view data);

// Of data that comes in pieces.
class Sha256Stream {
 public:
  void Add(std::string_view data);
  // Once, at the end.
  Sha256Digest Finish();

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};
  uint64_t size_ = 0;
};

// HMAC (RFC 2104) with SHA-256 over the pieces one after the other.
Sha256Digest HmacSha256(std::string_view key, std::span<const std::string_view> pieces);

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);
std::string ToHex(const Sha256Digest& digest);

}  // namespace cella
