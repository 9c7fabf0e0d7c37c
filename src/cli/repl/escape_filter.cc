#include "cli/repl/escape_filter.h"

#include <utility>

#include "base/text.h"
#include "cli/repl/char_width.h"

namespace cella::cli {
namespace {

constexpr unsigned char kEsc = 0x1B;
constexpr size_t kMaxParameters = 64;
constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

bool IsPassedControl(unsigned char byte) { return byte == '\r' || byte == '\n' || byte == '\t' || byte == '\b'; }

bool IsSgr(std::string_view parameters) {
  return parameters.find_first_not_of("0123456789;:") == std::string_view::npos;
}

}  // namespace

std::string EscapeFilter::Feed(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (char byte : bytes) FeedByte(static_cast<unsigned char>(byte), &out);
  return out;
}

std::string EscapeFilter::Finish() {
  std::string out;
  FlushMalformed(&out);
  state_ = State::kText;
  if (std::exchange(styled_, false)) out += "\x1B[0m";
  return out;
}

void EscapeFilter::FlushMalformed(std::string* out) {
  if (!character_.empty()) *out += kReplacementText;
  character_.clear();
}

void EscapeFilter::FeedByte(unsigned char byte, std::string* out) {
  // A terminal takes these in the middle of any sequence.
  if (byte == kEsc) {
    FlushMalformed(out);
    state_ = State::kEscape;
    return;
  }
  // Nothing that we would let pass spans lines: an unfinished sequence must not swallow what is printed after it.
  if (byte == '\n') state_ = State::kText;
  switch (state_) {
    case State::kText: FeedText(byte, out); return;
    case State::kEscape:
      if (byte == '[') {
        csi_.clear();
        state_ = State::kCsi;
      } else if (byte == ']' || byte == 'P' || byte == 'X' || byte == '^' || byte == '_') {
        state_ = State::kString;
      } else if (byte < 0x20 || byte > 0x2F) {  // intermediates go on
        state_ = State::kText;
        if (IsPassedControl(byte) || byte >= 0x80) FeedText(byte, out);
      }
      return;
    case State::kCsi:
      if (byte >= 0x20 && byte < 0x40) {
        if (csi_.size() <= kMaxParameters) csi_.push_back(static_cast<char>(byte));
        return;
      }
      state_ = State::kText;
      if (byte == 'm' && csi_.size() <= kMaxParameters && IsSgr(csi_)) {
        *out += "\x1B[" + csi_ + "m";
        styled_ = true;
      } else if (IsPassedControl(byte) || byte >= 0x80) {
        FeedText(byte, out);
      }
      return;
    case State::kString:
      // BEL, CAN and SUB end it; so does ST, whose ESC was seen above.
      if (byte == 0x07 || byte == 0x18 || byte == 0x1A) state_ = State::kText;
      return;
  }
}

void EscapeFilter::FeedText(unsigned char byte, std::string* out) {
  const bool continues = (byte & 0xC0) == 0x80;
  if (!continues || character_.empty()) FlushMalformed(out);
  if (byte < 0x80) {
    if (byte >= 0x20 && byte != 0x7F) out->push_back(static_cast<char>(byte));
    if (IsPassedControl(byte)) out->push_back(static_cast<char>(byte));
    return;
  }
  character_.push_back(static_cast<char>(byte));
  if (IncompleteUtf8Tail(character_) == character_.size()) return;
  Decoded decoded = DecodeUtf8(character_);
  // U+0080 to U+009F are the controls of ISO 6429: U+009B is as good as ESC [.
  if (decoded.character == kReplacement) {
    *out += kReplacementText;
  } else if (decoded.character > 0x9F) {
    *out += character_;
  }
  character_.clear();
}

std::string PlainText(std::string_view bytes) {
  EscapeFilter filter;
  std::string plain = filter.Feed(bytes);
  plain += filter.Finish();
  // Only SGR is left of the sequences.
  for (size_t begin; (begin = plain.find('\x1B')) != std::string::npos;) {
    plain.erase(begin, plain.find('m', begin) - begin + 1);
  }
  std::erase_if(plain, [](char byte) { return static_cast<unsigned char>(byte) < 0x20; });
  return plain;
}

}  // namespace cella::cli
