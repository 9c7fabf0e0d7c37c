// Sizes, durations and counts as configuration and requests give them: a number, or the text that people write. One
// place, so that `memory = "1g"` in cella.toml and `"memory": "1g"` in a request are the same words with the same
// refusals. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/units.h"

namespace cella::policy {

// Monostate: neither number, text nor switch (a list, a table).
using Scalar = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view>;

Result<uint64_t> ReadSize(const Scalar& value);
Result<Nanoseconds> ReadDuration(const Scalar& value);
Result<uint64_t> ReadCount(const Scalar& value);
Result<uint64_t> ReadCountOrZero(const Scalar& value);
Result<double> ReadCpus(const Scalar& value);
// Of events per second: from 0.001 to a million.
Result<double> ReadRate(const Scalar& value);

}  // namespace cella::policy
