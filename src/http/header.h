// Header fields, on the way in and out.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cella::http {

struct Header {
  std::string_view name;
  std::string_view value;
};

// What an answer is given: a braced list or a vector, borrowed. `co_await Send(200, {{"A", "b"}}, body)` is fine; a
// variable of this type made from a braced list is not, since the list is gone at the end of the line.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<Header> list) : fields_(list.begin(), list.size()) {}
  Headers(const std::vector<Header>& list) : fields_(list) {}

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::span<const Header> fields_;
};

// Names and most tokens of HTTP are compared so. ASCII only.
inline bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

inline std::optional<std::string_view> FindHeader(std::span<const Header> headers, std::string_view name) {
  for (const Header& header : headers) {
    if (EqualsIgnoringCase(header.name, name)) return header.value;
  }
  return std::nullopt;
}

}  // namespace cella::http
