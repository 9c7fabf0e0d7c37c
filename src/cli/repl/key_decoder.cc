#include "cli/repl/key_decoder.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/repl/char_width.h"

namespace cella::cli {
namespace {

constexpr char kEsc = '\x1B';
constexpr std::string_view kPasteBegin = "\x1B[200~";
constexpr std::string_view kPasteEnd = "\x1B[201~";
constexpr size_t kMaxPaste = size_t{8} << 20;
constexpr size_t kMaxSequence = 32;

std::optional<KeyCode> ControlKey(char byte) {
  switch (byte) {
    case 'A' & 0x1F: return KeyCode::kHome;
    case 'B' & 0x1F: return KeyCode::kLeft;
    case 'C' & 0x1F: return KeyCode::kInterrupt;
    case 'D' & 0x1F: return KeyCode::kEndOfInput;
    case 'E' & 0x1F: return KeyCode::kEnd;
    case 'F' & 0x1F: return KeyCode::kRight;
    case 'G' & 0x1F: return KeyCode::kAbort;
    case 'K' & 0x1F: return KeyCode::kDeleteToEnd;
    case 'L' & 0x1F: return KeyCode::kClearScreen;
    case 'N' & 0x1F: return KeyCode::kNextEntry;
    case 'P' & 0x1F: return KeyCode::kPreviousEntry;
    case 'R' & 0x1F: return KeyCode::kSearch;
    case 'U' & 0x1F: return KeyCode::kDeleteToStart;
    case 'W' & 0x1F: return KeyCode::kDeleteWordLeft;
    case 'Y' & 0x1F: return KeyCode::kYank;
    case 'Z' & 0x1F: return KeyCode::kSuspend;
    case '\t': return KeyCode::kTab;
    case '\r':
    case '\n': return KeyCode::kEnter;
    case '\b':
    case 0x7F: return KeyCode::kBackspace;
    default: return std::nullopt;
  }
}

// What follows Alt.
std::optional<KeyCode> AltKey(char byte) {
  switch (byte) {
    case 'b': return KeyCode::kWordLeft;
    case 'f': return KeyCode::kWordRight;
    case 'd': return KeyCode::kDeleteWordRight;
    case '\r':
    case '\n': return KeyCode::kNewline;
    case '\b':
    case 0x7F: return KeyCode::kDeleteWordLeft;
    default: return std::nullopt;
  }
}

// "1;5C": the parameters of a control sequence, then its last byte. Modifiers 3 and 5 are Alt and Ctrl.
std::optional<KeyCode> SequenceKey(std::string_view parameters, char last) {
  const bool by_word = parameters.ends_with(";5") || parameters.ends_with(";3");
  switch (last) {
    case 'A': return KeyCode::kUp;
    case 'B': return KeyCode::kDown;
    case 'C': return by_word ? KeyCode::kWordRight : KeyCode::kRight;
    case 'D': return by_word ? KeyCode::kWordLeft : KeyCode::kLeft;
    case 'H': return KeyCode::kHome;
    case 'F': return KeyCode::kEnd;
    case '~': break;
    default: return std::nullopt;
  }
  std::string_view number = parameters.substr(0, parameters.find(';'));
  if (number == "1" || number == "7") return KeyCode::kHome;
  if (number == "4" || number == "8") return KeyCode::kEnd;
  if (number == "3") return by_word ? KeyCode::kDeleteWordRight : KeyCode::kDelete;
  return std::nullopt;
}

void AddText(std::string_view text, std::vector<Key>* keys) {
  if (keys->empty() || keys->back().code != KeyCode::kText) keys->push_back({KeyCode::kText, {}});
  keys->back().text += text;
}

// Line ends as \n, and nothing else that is not text.
std::string Clean(std::string_view paste) {
  std::string text;
  for (size_t i = 0; i < paste.size(); ++i) {
    char byte = paste[i];
    if (byte == '\r') {
      if (i + 1 < paste.size() && paste[i + 1] == '\n') ++i;
      byte = '\n';
    }
    if (static_cast<unsigned char>(byte) >= 0x20 || byte == '\n' || byte == '\t') text.push_back(byte);
  }
  return ToUtf8Lossy(text);
}

}  // namespace

std::vector<Key> KeyDecoder::Feed(std::string_view bytes) {
  std::vector<Key> keys;
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    size_t used = pasting_ ? TakePaste(rest, &keys) : Take(rest, &keys);
    if (used == 0) break;
    rest.remove_prefix(used);
  }
  pending_ = std::string(rest);
  return keys;
}

size_t KeyDecoder::Take(std::string_view bytes, std::vector<Key>* keys) {
  if (bytes.front() == kEsc) return TakeEscape(bytes, keys);
  if (static_cast<unsigned char>(bytes.front()) < 0x20 || bytes.front() == 0x7F) {
    if (auto code = ControlKey(bytes.front())) keys->push_back({*code, {}});
    return 1;
  }
  if (IncompleteUtf8Tail(bytes.substr(0, 4)) == bytes.size()) return 0;
  Decoded decoded = DecodeUtf8(bytes);
  const bool printable = decoded.character >= 0x20 && (decoded.character < 0x7F || decoded.character > 0x9F);
  if (printable) AddText(ToUtf8Lossy(bytes.substr(0, decoded.size)), keys);
  return decoded.size;
}

size_t KeyDecoder::TakeEscape(std::string_view bytes, std::vector<Key>* keys) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == kEsc) return 1;
  if (bytes[1] != '[' && bytes[1] != 'O') {
    if (auto code = AltKey(bytes[1])) {
      keys->push_back({*code, {}});
      return 2;
    }
    // Escape was pressed alone.
    return 1;
  }
  size_t end = 2;
  while (end < bytes.size() && (bytes[end] < 0x40 || bytes[end] > 0x7E)) ++end;
  if (end == bytes.size()) return end > kMaxSequence ? end : 0;
  std::string_view sequence = bytes.substr(0, end + 1);
  if (sequence == kPasteBegin) {
    pasting_ = true;
  } else if (auto code = SequenceKey(bytes.substr(2, end - 2), bytes[end])) {
    keys->push_back({*code, {}});
  }
  return sequence.size();
}

size_t KeyDecoder::TakePaste(std::string_view bytes, std::vector<Key>* keys) {
  size_t end = bytes.find(kPasteEnd);
  // The end may have arrived in part.
  size_t used = end != std::string_view::npos ? end : bytes.size() - std::min(bytes.size(), kPasteEnd.size() - 1);
  paste_ += bytes.substr(0, std::min(used, kMaxPaste - std::min(kMaxPaste, paste_.size())));
  if (end == std::string_view::npos) return used;
  keys->push_back({KeyCode::kPaste, Clean(paste_)});
  paste_.clear();
  pasting_ = false;
  return end + kPasteEnd.size();
}

}  // namespace cella::cli
