// A cursor over the text of one requirement. Pure.
#pragma once

#include <string_view>

namespace cella::environment {

inline bool IsAlnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }

inline std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (IsBlank(text.front()) || text.front() == '\n' || text.front() == '\r'))
    text.remove_prefix(1);
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

class SpecScanner {
 public:
  explicit SpecScanner(std::string_view text) : rest_(text) {}
  bool AtEnd() const { return rest_.empty(); }
  // Not at the end.
  char Peek() const { return rest_.front(); }
  bool Take(char c) { return Take(std::string_view(&c, 1)); }
  bool Take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void SkipBlanks() { (void)TakeWhile(IsBlank); }
  template <typename Predicate>
  std::string_view TakeWhile(Predicate predicate) {
    size_t count = 0;
    while (count < rest_.size() && predicate(rest_[count])) ++count;
    std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace cella::environment
