#include "executor/sandbox/marked_text.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace cella::executor {
namespace {

// Of the largest number, and the NUL behind it.
constexpr size_t kLongestNumber = 21;

// How much of the end of `text` may be the beginning of `word`.
size_t BegunAtEnd(std::string_view text, std::string_view word) {
  for (size_t length = std::min(text.size(), word.size() - 1); length > 0; --length) {
    if (text.ends_with(word.substr(0, length))) return length;
  }
  return 0;
}

std::string Opening(std::string_view token) {
  std::string opening(1, '\0');
  return opening.append("cella ").append(token).append(" ");
}

}  // namespace

MarkedText::MarkedText(std::string_view token) : opening_(Opening(token)) {}

std::string MarkedText::Take() {
  stands_at_ = 0;
  // Text without NUL has no mark. This is all that most runs need.
  if (!buffer_.contains('\0')) return std::exchange(buffer_, {});
  std::string text;
  size_t done = 0, scanned = 0;
  for (;;) {
    const size_t at = buffer_.find(opening_, scanned);
    if (at == std::string::npos) {
      const size_t end = buffer_.size() - BegunAtEnd(std::string_view(buffer_).substr(done), opening_);
      text.append(buffer_, done, end - done);
      buffer_.erase(0, end);
      return text;
    }
    const std::string_view rest = std::string_view(buffer_).substr(at + opening_.size(), kLongestNumber);
    uint64_t number = 0;
    const auto [behind, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const auto length = static_cast<size_t>(behind - rest.data());
    const bool cut = length == rest.size() && rest.size() < kLongestNumber;
    const bool is_mark = error == std::errc() && length < rest.size() && rest[length] == '\0' && number > 0;
    if (!is_mark && !cut) {
      scanned = at + 1;  // the guest's own text
      continue;
    }
    text.append(buffer_, done, at - done);
    done = at;
    if (cut || number > released_) {
      if (is_mark) stands_at_ = number;
      reached_ = std::max(reached_, stands_at_);
      buffer_.erase(0, done);
      return text;
    }
    reached_ = std::max(reached_, number);
    done = scanned = at + opening_.size() + length + 1;
  }
}

void MarkedText::Release(uint64_t number) {
  released_ = std::max(released_, number);
  if (stands_at_ <= released_) stands_at_ = 0;
}

std::string MarkedText::Rest() {
  Release(UINT64_MAX);
  std::string text = Take();
  return text + std::exchange(buffer_, {});
}

}  // namespace cella::executor
