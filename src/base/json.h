// The reader of JSON that comes from outside: bodies of clients, frames of guests, answers of other programs. Its work
// is at most n log n in the bytes that it reads, and ends at the first bound that the text exceeds. Pure; any thread.
// A text of more than kReadAtOnce bytes belongs on a pool, not on the loop.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace cella {

// Reading so much takes a fraction of a millisecond.
inline constexpr size_t kReadAtOnce = size_t{16} << 10;

struct JsonLimits {
  size_t bytes = size_t{1} << 20;
  size_t depth = 64;         // arrays and objects within each other
  size_t nodes = 10'000;     // values and keys together
  bool unique_keys = false;  // refuse an object with a key twice; else the last one counts
};

// What reading a text cost, also where it was refused.
struct JsonWork {
  size_t nodes = 0;
};

// kExhausted: the text exceeds a bound, which the message names. kInvalid: it is not JSON, or has a key twice.
Result<nlohmann::json> ReadJson(std::string_view text, const JsonLimits& limits, JsonWork* work = nullptr);

}  // namespace cella
