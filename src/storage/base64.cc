#include "storage/base64.h"

#include <array>
#include <cstdint>

namespace cella::storage {
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

std::optional<std::string> DecodeBase64Strictly(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    uint32_t group = 0;
    for (size_t digit = 0; digit < 4; ++digit) {
      const bool padded = last && digit >= 4 - padding;
      const uint8_t value = padded ? 0 : kValues[static_cast<uint8_t>(text[at + digit])];
      if (value == kNone) return std::nullopt;
      group = group << 6 | value;
    }
    // Bits that no byte has must be zero: a text stands for one value only.
    if (last && padding > 0 && (group & (padding == 2 ? 0xffffU : 0xffU)) != 0) return std::nullopt;
    for (size_t byte = 0; byte < 3 - (last ? padding : 0); ++byte) {
      bytes += static_cast<char>(group >> (16 - 8 * byte) & 0xff);
    }
  }
  return bytes;
}

}  // namespace cella::storage
