// Reads the part of TOML that languages.toml uses: [tables], [[arrays of tables]], strings, lists of strings and inline
// tables of strings. The file is read on every start of a program, and a general TOML parser takes half a millisecond
// for it, where this takes a few dozen microseconds; everything that it accepts is TOML and means the same there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace cella::language {

using PlainTomlValue =
    std::variant<std::string, std::vector<std::string>, std::vector<std::pair<std::string, std::string>>>;

struct PlainTomlEntry {
  std::string_view key;  // of the parsed text
  int line = 0;
  PlainTomlValue value;
};

struct PlainTomlTable {
  std::string_view name;  // "java", "java.by_class"; of the parsed text
  bool array_element = false;
  int line = 0;
  std::vector<PlainTomlEntry> entries;
};

// In the order of the text. `origin` is what messages call it.
Result<std::vector<PlainTomlTable>> ParsePlainToml(std::string_view text, std::string_view origin);

}  // namespace cella::language
