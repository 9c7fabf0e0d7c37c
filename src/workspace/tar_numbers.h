// Numbers as tar headers write them: octal digits, or (GNU, and every tar since) binary when those do not suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cella::workspace {

// Nothing when it is neither, or too large. Spaces before and a NUL or space behind are as old programs wrote them.
std::optional<int64_t> ParseTarNumber(std::string_view field);

// Zero-padded octal with a NUL at the end. False when it does not fit.
bool WriteTarNumber(std::span<char> field, uint64_t value);

// The value of a pax record: decimal, with a fraction that is dropped where `fraction` allows one.
enum class PaxFraction { kRefuse, kDrop };
std::optional<int64_t> ParsePaxNumber(std::string_view text, PaxFraction fraction);

}  // namespace cella::workspace
