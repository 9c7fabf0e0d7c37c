// Sizes and durations as people write them: "512m", "1g", "60s", "500ms". The same words in options, configuration
// and the HTTP API.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella {

using Nanoseconds = std::chrono::nanoseconds;

// "1024", "64k", "512m", "1g", "1.5g", "2t"; k = 2^10. Zero and negative values are refused.
Result<uint64_t> ParseByteSize(std::string_view text);

// "60", "1.5", "500ms", "60s", "10m", "2h"; a bare number is seconds. Zero and negative values are refused.
Result<Nanoseconds> ParseDuration(std::string_view text);

// "1.5", "2": a positive number of processors.
Result<double> ParseCpus(std::string_view text);

// "128": a positive whole number.
Result<uint64_t> ParseCount(std::string_view text);

// "1g", "512m", "1.5g", "17 bytes": the shortest exact form for people.
std::string FormatByteSize(uint64_t bytes);

// "60s", "500ms", "1m 30s": for messages.
std::string FormatDuration(Nanoseconds duration);

}  // namespace cella
