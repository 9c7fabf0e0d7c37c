#include "policy/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace cella::policy {
namespace {

constexpr size_t kMaxShown = 80;
constexpr size_t kMaxName = 64;
constexpr size_t kMaxVariableName = 256;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Shown(std::string_view text) {
  if (text.size() <= kMaxShown) return ToUtf8Lossy(text);
  std::string_view head = text.substr(0, kMaxShown);
  head.remove_suffix(IncompleteUtf8Tail(head));
  return ToUtf8Lossy(head) + "…";
}

std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.empty() || word.size() > kMaxShown) return {};
  std::string_view best;
  // A third of the word may be wrong; beyond that a guess misleads.
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (std::string_view each : known) {
    if (size_t distance = Distance(word, each); distance < least) {
      least = distance;
      best = each;
    }
  }
  return best;
}

std::string UnknownKey(std::string_view key, const std::vector<std::string_view>& known) {
  std::string_view near = Nearest(key, known);
  if (!near.empty()) return fmt::format("unknown key '{}'; did you mean '{}'?", Shown(key), near);
  return fmt::format("unknown key '{}'; known are {}", Shown(key), fmt::join(known, ", "));
}

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kMaxName || !(IsLetter(text[0]) || IsDigit(text[0]))) return false;
  return std::ranges::all_of(text,
                             [](char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '_' || c == '-'; });
}

bool IsVariableName(std::string_view text) {
  if (text.empty() || text.size() > kMaxVariableName || IsDigit(text[0])) return false;
  return std::ranges::all_of(text, [](char c) { return IsLetter(c) || IsDigit(c) || c == '_'; });
}

bool IsModuleName(std::string_view text) {
  while (true) {
    size_t dot = text.find('.');
    if (!IsVariableName(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace cella::policy
