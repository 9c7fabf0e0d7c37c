// One requirement in the grammar that Cella accepts: a bounded part of PEP 508, without paths, URLs and options. An
// installer gets only the canonical form that is written here, never the text of a client or a guest. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::environment {

inline constexpr size_t kMaxSpecBytes = 512;
inline constexpr size_t kMaxSpecs = 500;       // of one request
inline constexpr size_t kMaxFileSpecs = 2000;  // of a requirements file

struct Requirement {
  std::string name;  // normalised: lower case, runs of "-_." as "-"
  std::string text;  // canonical: "numpy[extra]>=2,<3 ; python_version < \"3.13\""
  auto operator<=>(const Requirement&) const = default;
};

// Lower case, with every run of "-", "_" and "." as one "-".
std::string NormalizeName(std::string_view name);

// A name as PEP 508 has it, of at most 128 bytes, which no installer takes for a file.
bool IsPackageName(std::string_view name);

// A version as PEP 440 has it, e.g. "1.2.3rc1".
bool IsVersion(std::string_view text);

// "==3.12.*", ">=3.11,<4", "3.12" (the same as "==3.12"): what requires-python may hold. Empty text is refused.
Result<std::string> ParseSpecifiers(std::string_view text);

// kInvalid: what is wrong with it, and what to write instead.
Result<Requirement> ParseRequirement(std::string_view text);

// All of them, sorted and without duplicates; the error names the one that is wrong.
Result<std::vector<Requirement>> ParseRequirements(std::span<const std::string> texts, size_t at_most = kMaxSpecs);

}  // namespace cella::environment
