// The values of a run, as clients write them: {"name": VALUE}, where a text is text, {"$bytes": "BASE64"} are bytes,
// {"$json": "TEXT"} is JSON as text, and everything else is JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"
#include "cella/run.h"

namespace cella::session {

// kInvalid: it is no such object.
Result<std::vector<Variable>> ReadVariables(const nlohmann::json& document);

// kInvalid: names that the code cannot have, or too many.
Status CheckVariables(const std::vector<Variable>& variables);

}  // namespace cella::session
