// The bytes that a terminal sends in raw mode, as keys. Keeps its place between calls: sequences arrive in pieces. A
// lone Escape waits for what follows it, as Alt is sent that way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cella::cli {

enum class KeyCode {
  kText,   // typed characters
  kPaste,  // a bracketed paste; lines end in \n
  kEnter,
  kNewline,  // Alt-Enter: a line break in any case
  kTab,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kDeleteWordLeft,
  kDeleteWordRight,
  kDeleteToStart,
  kDeleteToEnd,
  kYank,
  kPreviousEntry,
  kNextEntry,
  kSearch,
  kAbort,  // Ctrl-G
  kInterrupt,
  kEndOfInput,
  kSuspend,
  kClearScreen,
};

struct Key {
  KeyCode code = KeyCode::kText;
  std::string text;

  bool operator==(const Key&) const = default;
};

class KeyDecoder {
 public:
  std::vector<Key> Feed(std::string_view bytes);

 private:
  // The number of bytes used; 0: more must come.
  size_t Take(std::string_view bytes, std::vector<Key>* keys);
  size_t TakeEscape(std::string_view bytes, std::vector<Key>* keys);
  size_t TakePaste(std::string_view bytes, std::vector<Key>* keys);

  std::string pending_;
  std::string paste_;
  bool pasting_ = false;
};

}  // namespace cella::cli
