#include "base/text.h"

#include <algorithm>
#include <cstdint>

namespace cella {
namespace {

// Length of the well-formed sequence at the start (RFC 3629, no surrogates, no overlong forms); 0: malformed.
// `*needed` is the length that the first byte announces, 0 when it announces none.
size_t SequenceLength(std::string_view s, size_t* needed) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  uint8_t first = byte(0);
  *needed = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (*needed == 0 || s.size() < *needed) return 0;
  for (size_t i = 1; i < *needed; ++i) {
    uint8_t low = 0x80, high = 0xbf;
    if (i == 1 && first == 0xe0) low = 0xa0;
    if (i == 1 && first == 0xed) high = 0x9f;
    if (i == 1 && first == 0xf0) low = 0x90;
    if (i == 1 && first == 0xf4) high = 0x8f;
    if (byte(i) < low || byte(i) > high) return 0;
  }
  return *needed;
}

}  // namespace

std::string ToUtf8Lossy(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t needed = 0;
    size_t length = SequenceLength(bytes, &needed);
    if (length == 0) {
      text += "\xef\xbf\xbd";
      length = 1;
    } else {
      text.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(length);
  }
  return text;
}

size_t IncompleteUtf8Tail(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    auto byte = static_cast<uint8_t>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation: look further back
    size_t needed = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf5 && needed > back ? back : 0;
  }
  return 0;
}

bool NestsDeeperThan(std::string_view json, int depth) {
  int open = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) return true;
    } else if (c == ']' || c == '}') {
      --open;
    }
  }
  return false;
}

}  // namespace cella
