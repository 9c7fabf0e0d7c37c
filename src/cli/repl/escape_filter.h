// What a guest prints, made harmless for a terminal: of the control characters \r, \n, \t and \b pass, of the escape
// sequences only SGR (colours and weight). Window titles, the clipboard, cursor movement, answers that the terminal
// would type as if the user did, and malformed UTF-8 do not. Keeps its place between calls, since sequences are cut
// anywhere.
#pragma once

#include <string>
#include <string_view>

namespace cella::cli {

class EscapeFilter {
 public:
  std::string Feed(std::string_view bytes);

  // Call when the output has ended: forgets an unfinished sequence, ends colours that were left on.
  std::string Finish();

 private:
  enum class State { kText, kEscape, kCsi, kString };

  void FeedByte(unsigned char byte, std::string* out);
  void FeedText(unsigned char byte, std::string* out);
  void FlushMalformed(std::string* out);

  State state_ = State::kText;
  std::string csi_;        // its parameters so far
  std::string character_;  // an unfinished UTF-8 character
  bool styled_ = false;
};

// One line of text, without any escape sequence or control character: for prompts and names.
std::string PlainText(std::string_view bytes);

}  // namespace cella::cli
