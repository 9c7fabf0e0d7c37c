// What a guest offers to complete an entry with: hostile until checked. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cella::cli {

struct Completion {
  size_t begin = 0, end = 0;  // bytes of the entry that a match replaces
  std::vector<std::string> matches;
};

// `answer` is the JSON of runners/README.md, with positions in characters. Nothing: it makes no sense, or there are no
// matches. Matches that are not a line of plain text are left out, and so are those beyond a bound.
std::optional<Completion> ParseCompletion(std::string_view answer, std::string_view entry);

// Of the words in `names`, those that begin like entry[begin, cursor).
std::optional<Completion> CompleteName(std::string_view names, std::string_view entry, size_t begin, size_t cursor);

// What all of them begin with, in whole characters.
std::string CommonPrefix(const std::vector<std::string>& matches);

// In columns, as `ls` shows names; every line ends in \n.
std::string InColumns(const std::vector<std::string>& matches, size_t width);

// Characters before that byte.
size_t CharactersBefore(std::string_view text, size_t byte);

}  // namespace cella::cli
