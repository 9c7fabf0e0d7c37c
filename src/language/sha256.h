// SHA-256 (FIPS 180-4) of a string, for naming files by their content. Not for secrets: nothing is wiped.
#pragma once

#include <string>
#include <string_view>

namespace cella::language {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view data);

}  // namespace cella::language
