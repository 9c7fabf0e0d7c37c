#include "base/units.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace cella {
namespace {

struct Quantity {
  double value = 0;
  std::string_view unit;
};

// A decimal number and what follows it. Only digits and one point: no sign, no exponent, no "inf".
Result<Quantity> SplitQuantity(std::string_view text, std::string_view what) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    return Err(ErrorCode::kInvalid, "'{}' is not a {}: it must be a positive number", text, what);
  }
  size_t digits = text.find_first_not_of("0123456789.");
  if (digits == std::string_view::npos) digits = text.size();
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + digits, value, std::chars_format::fixed);
  if (digits == 0 || error != std::errc() || end != text.data() + digits) {
    return Err(ErrorCode::kInvalid, "'{}' is not a {}", text, what);
  }
  return Quantity{value, text.substr(digits)};
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text) {
  TRY(Quantity quantity, SplitQuantity(text, "size"));
  std::string_view unit = quantity.unit;
  if (unit.size() > 1 && (unit.back() == 'b' || unit.back() == 'B')) unit.remove_suffix(1);
  if (unit.size() > 1 && unit.back() == 'i') unit.remove_suffix(1);
  int shift = 0;
  if (unit.empty() || unit == "b" || unit == "B") {
    shift = 0;
  } else if (unit == "k" || unit == "K") {
    shift = 10;
  } else if (unit == "m" || unit == "M") {
    shift = 20;
  } else if (unit == "g" || unit == "G") {
    shift = 30;
  } else if (unit == "t" || unit == "T") {
    shift = 40;
  } else {
    return Err(ErrorCode::kInvalid, "'{}' is not a size: unknown unit '{}' (use bytes, k, m, g or t, as in 512m)", text,
               quantity.unit);
  }
  double bytes = std::ldexp(quantity.value, shift);
  if (bytes < 1) return Err(ErrorCode::kInvalid, "'{}' is not a size: it must be at least one byte", text);
  if (bytes >= std::ldexp(1.0, 62)) return Err(ErrorCode::kInvalid, "'{}' is not a size: it is too large", text);
  return static_cast<uint64_t>(bytes);
}

Result<Nanoseconds> ParseDuration(std::string_view text) {
  TRY(Quantity quantity, SplitQuantity(text, "duration"));
  double scale = 0;
  if (quantity.unit.empty() || quantity.unit == "s") {
    scale = 1e9;
  } else if (quantity.unit == "ms") {
    scale = 1e6;
  } else if (quantity.unit == "m" || quantity.unit == "min") {
    scale = 60e9;
  } else if (quantity.unit == "h") {
    scale = 3600e9;
  } else if (quantity.unit == "d") {
    scale = 86400e9;
  } else {
    return Err(ErrorCode::kInvalid, "'{}' is not a duration: unknown unit '{}' (use ms, s, m, h or d, as in 90s)", text,
               quantity.unit);
  }
  double nanoseconds = quantity.value * scale;
  if (nanoseconds < 1e6) return Err(ErrorCode::kInvalid, "'{}' is not a duration: it must be at least 1ms", text);
  if (nanoseconds > 365.0 * 86400e9) return Err(ErrorCode::kInvalid, "'{}' is not a duration: it is over a year", text);
  return Nanoseconds(static_cast<int64_t>(nanoseconds));
}

Result<double> ParseCpus(std::string_view text) {
  TRY(Quantity quantity, SplitQuantity(text, "number of cpus"));
  if (!quantity.unit.empty()) return Err(ErrorCode::kInvalid, "'{}' is not a number of cpus", text);
  if (quantity.value < 0.01 || quantity.value > 4096) {
    return Err(ErrorCode::kInvalid, "'{}' is not a number of cpus: it must be from 0.01 to 4096", text);
  }
  return quantity.value;
}

Result<uint64_t> ParseCount(std::string_view text) {
  uint64_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || count == 0 ||
      count > std::numeric_limits<int32_t>::max()) {
    return Err(ErrorCode::kInvalid, "'{}' is not a count: it must be a whole number of at least 1", text);
  }
  return count;
}

std::string FormatByteSize(uint64_t bytes) {
  constexpr struct {
    int shift;
    char letter;
  } kUnits[] = {{40, 't'}, {30, 'g'}, {20, 'm'}, {10, 'k'}};
  for (auto [shift, letter] : kUnits) {
    uint64_t unit = uint64_t{1} << shift;
    if (bytes < unit) continue;
    if (bytes % unit == 0) return fmt::format("{}{}", bytes >> shift, letter);
    return fmt::format("{:.1f}{}", static_cast<double>(bytes) / static_cast<double>(unit), letter);
  }
  return fmt::format("{} bytes", bytes);
}

std::string FormatDuration(Nanoseconds duration) {
  int64_t milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
  if (milliseconds < 60'000 && milliseconds % 1000 != 0)
    return fmt::format("{:.1f}s", static_cast<double>(milliseconds) / 1e3);
  int64_t seconds = milliseconds / 1000;
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds % 60 == 0) return fmt::format("{}m", seconds / 60);
  return fmt::format("{}m {}s", seconds / 60, seconds % 60);
}

}  // namespace cella
