// Characters of UTF-8 text and the columns that they take on a terminal. Not the C library's: a static program would
// depend on locale files of the machine it runs on.
#pragma once

#include <cstddef>
#include <string_view>

namespace cella::cli {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t character;  // kReplacement: malformed
  size_t size;         // bytes; at least 1
};

// The first character; `text` is not empty.
Decoded DecodeUtf8(std::string_view text);

// 0, 1 or 2. A control character counts as 1, whatever is shown in its place.
size_t CharWidth(char32_t character);

size_t TextWidth(std::string_view text);

}  // namespace cella::cli
