// The arguments of a call that came through the socket: {"args": [...], "kwargs": [["name", value], ...]}, in the order
// in which the guest's code wrote them. For the handlers of namespaces. Reading them takes a bounded time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cella::calls {

using Value = nlohmann::json;  // whose keys are in no order: that of `named` is the order of the code

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at that position or of that name; null: it was not given.
  const Value* Find(size_t position, std::string_view name) const;
};

// kInvalid: not such a text, or a name twice. kExhausted: too large, too deep, or too many values.
Result<Arguments> ParseArguments(std::string_view json);

}  // namespace cella::calls
