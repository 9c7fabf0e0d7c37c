// SHA-256 (FIPS 180-4): names files by their content and keeps tokens without keeping their text. Plain values, safe
// from any thread; the time it takes depends on the length of the data alone. Nothing is wiped: that is the caller's
// part.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cella {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view data);

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);
std::string ToHex(const Sha256Digest& digest);

}  // namespace cella
