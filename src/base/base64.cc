#include "base/base64.h"

#include <array>
#include <cstdint>

namespace cella {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  return values;
}();

uint32_t Byte(std::string_view text, size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : 0; }

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const uint32_t group = Byte(bytes, at) << 16 | Byte(bytes, at + 1) << 8 | Byte(bytes, at + 2);
    for (int digit = 0; digit < 4; ++digit) text += kDigits[group >> (18 - 6 * digit) & 63];
  }
  const size_t rest = bytes.size() % 3;
  for (size_t i = 0; rest != 0 && i < 3 - rest; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

Result<std::string> DecodeBase64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('\n') || text.ends_with('=')) text.remove_suffix(1);
  bytes.reserve(text.size() / 4 * 3);
  for (char c : text) {
    if (c == '\n') continue;
    const uint8_t digit = kValues[static_cast<uint8_t>(c)];
    if (digit == kNone) return Err(ErrorCode::kInvalid, "not base64");
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return bytes;
}

Result<std::string> DecodeBase64Strictly(std::string_view text) {
  TRY(std::string bytes, DecodeBase64(text));
  // Line ends, padding that is missing, and bits that no byte has.
  if (EncodeBase64(bytes) != text) return Err(ErrorCode::kInvalid, "not base64 with padding and without line ends");
  return bytes;
}

}  // namespace cella
