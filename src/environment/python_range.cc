#include "environment/python_range.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace cella::environment {
namespace {

// The numbers of the release: 3, 12, 1. What follows them (rc1, .dev0) is left out.
std::vector<int> Release(std::string_view text) {
  std::vector<int> parts;
  if (text.starts_with('v')) text.remove_prefix(1);
  while (!text.empty()) {
    int number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) break;
    parts.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return parts;
}

// Below zero: a < b. Missing parts count as zero.
int Compare(const std::vector<int>& a, const std::vector<int>& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int left = i < a.size() ? a[i] : 0, right = i < b.size() ? b[i] : 0;
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

bool HasPrefix(const std::vector<int>& version, const std::vector<int>& prefix) {
  return prefix.size() <= version.size() && std::equal(prefix.begin(), prefix.end(), version.begin());
}

bool PermitsOne(std::string_view specifier, const std::vector<int>& version) {
  size_t length = std::min(specifier.find_first_not_of("<>=!~"), specifier.size());
  std::string_view op = specifier.substr(0, length), text = specifier.substr(length);
  const bool any_suffix = text.ends_with(".*");
  std::vector<int> wanted = Release(text);
  if (any_suffix) return HasPrefix(version, wanted) == (op == "==");
  const int order = Compare(version, wanted);
  if (op == "==") return order == 0;
  if (op == "!=") return order != 0;
  if (op == "<=") return order <= 0;
  if (op == ">=") return order >= 0;
  if (op == "<") return order < 0;
  if (op == ">") return order > 0;
  if (op != "~=" || order < 0) return false;
  wanted.pop_back();
  return HasPrefix(version, wanted);
}

}  // namespace

bool Permits(std::string_view specifiers, std::string_view version) {
  const std::vector<int> release = Release(version);
  while (!specifiers.empty()) {
    size_t end = std::min(specifiers.find(','), specifiers.size());
    if (!PermitsOne(specifiers.substr(0, end), release)) return false;
    specifiers.remove_prefix(std::min(end + 1, specifiers.size()));
  }
  return true;
}

}  // namespace cella::environment
