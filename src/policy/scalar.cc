#include "policy/scalar.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "policy/names.h"

namespace cella::policy {
namespace {

constexpr size_t kMaxText = 80;

// As the parsers of base/units.h want it: digits and one point. Nothing: it is no number and no text.
std::optional<std::string> AsText(const Scalar& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* whole = std::get_if<uint64_t>(&value)) return fmt::format("{}", *whole);
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return std::nullopt;
  // 1e9 is a number of bytes like any other; what no unit could hold keeps a form that the parsers refuse.
  if (!std::isfinite(*number) || std::abs(*number) > 1e18) return fmt::format("{}", *number);
  std::string text = fmt::format("{:.9f}", *number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

template <typename Parse>
auto Read(const Scalar& value, const char* wanted, Parse parse) -> decltype(parse(std::string_view())) {
  std::optional<std::string> text = AsText(value);
  if (!text) return Err(ErrorCode::kInvalid, "must be {}", wanted);
  if (text->size() > kMaxText) return Err(ErrorCode::kInvalid, "'{}' is too long: must be {}", Shown(*text), wanted);
  return parse(std::string_view(*text));
}

}  // namespace

Result<uint64_t> ReadSize(const Scalar& value) {
  if (const auto* number = std::get_if<double>(&value); number != nullptr && *number != std::floor(*number)) {
    return Err(ErrorCode::kInvalid, "{} is not a size: it must be a whole number of bytes", *number);
  }
  return Read(value, "a size: a number of bytes, or text such as \"512m\"", ParseByteSize);
}

Result<Nanoseconds> ReadDuration(const Scalar& value) {
  return Read(value, "a duration: a number of seconds, or text such as \"90s\"", ParseDuration);
}

Result<uint64_t> ReadCount(const Scalar& value) { return Read(value, "a whole number of at least 1", ParseCount); }

Result<uint64_t> ReadCountOrZero(const Scalar& value) {
  return Read(value, "a whole number", [](std::string_view text) -> Result<uint64_t> {
    if (text == "0") return 0;
    return ParseCount(text);
  });
}

Result<double> ReadCpus(const Scalar& value) { return Read(value, "a number of processors such as 1.5", ParseCpus); }

Result<double> ReadRate(const Scalar& value) {
  return Read(value, "a number of requests per second such as 20", [](std::string_view text) -> Result<double> {
    double rate = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate, std::chars_format::fixed);
    if (error != std::errc() || end != text.data() + text.size() || !(rate >= 0.001 && rate <= 1e6)) {
      return Err(ErrorCode::kInvalid, "'{}' is not a rate: it must be a number from 0.001 to 1000000", text);
    }
    return rate;
  });
}

}  // namespace cella::policy
