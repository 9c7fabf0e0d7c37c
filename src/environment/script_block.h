// The metadata block of a script (PEP 723): which Python and which packages it wants. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "environment/requirement.h"

namespace cella::environment {

struct ScriptBlock {
  std::string requires_python;  // canonical specifiers; empty: not given
  std::vector<Requirement> packages;
};

struct ScriptReading {
  std::optional<ScriptBlock> block;  // empty: the script has none
  std::string warning;               // a block that was ignored, and why; empty: nothing
};

// kInvalid: the script has two blocks, or one that is not understood.
Result<ScriptReading> ReadScriptBlock(std::string_view code);

}  // namespace cella::environment
