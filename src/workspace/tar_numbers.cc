#include "workspace/tar_numbers.h"

#include <charconv>
#include <cstring>

namespace cella::workspace {

std::optional<int64_t> ParseTarNumber(std::string_view field) {
  auto first = static_cast<uint8_t>(field[0]);
  if ((first & 0x80) != 0) {
    // Two's complement, big-endian, with the highest bit taken as the mark and the next one as the sign.
    bool negative = (first & 0x40) != 0;
    uint64_t value = negative ? UINT64_MAX : 0;
    for (size_t i = 0; i < field.size(); ++i) {
      auto byte = static_cast<uint8_t>(field[i]);
      if (i == 0) byte = negative ? byte : byte & 0x7f;
      // What is shifted out must be nothing but sign.
      if ((value >> 55) != (negative ? 0x1ff : 0)) return std::nullopt;
      value = value << 8 | byte;
    }
    return static_cast<int64_t>(value);
  }
  size_t start = field.find_first_not_of(' ');
  if (start == std::string_view::npos) return 0;
  field.remove_prefix(start);
  size_t end = field.find_first_not_of("01234567");
  std::string_view digits = field.substr(0, end);
  if (end != std::string_view::npos && field[end] != '\0' && field[end] != ' ') return std::nullopt;
  int64_t value = 0;  // at most twelve digits of three bits
  for (char digit : digits) value = value << 3 | (digit - '0');
  return value;
}

bool WriteTarNumber(std::span<char> field, uint64_t value) {
  for (size_t i = field.size() - 1; i > 0; --i) {
    field[i - 1] = static_cast<char>('0' + (value & 7));
    value >>= 3;
  }
  field.back() = '\0';
  return value == 0;
}

std::optional<int64_t> ParsePaxNumber(std::string_view text, PaxFraction fraction) {
  int64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  std::string_view left(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (left.empty()) return value;
  if (fraction == PaxFraction::kRefuse || left[0] != '.') return std::nullopt;
  if (left.find_first_not_of("0123456789", 1) != std::string_view::npos) return std::nullopt;
  return value;
}

}  // namespace cella::workspace
