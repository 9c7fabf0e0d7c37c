#include "calls/arguments.h"

#include <algorithm>

#include "base/json.h"
#include "calls/frame.h"

namespace cella::calls {
namespace {

// Code that walks through a value is recursive.
constexpr JsonLimits kLimits = {.bytes = kMaxBodyBytes, .depth = 64, .nodes = 100'000};
constexpr size_t kMostNamed = 1000;

}  // namespace

const Value* Arguments::Find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  auto found = std::ranges::find(named, name, &std::pair<std::string, Value>::first);
  return found == named.end() ? nullptr : &found->second;
}

Result<Arguments> ParseArguments(std::string_view json) {
  auto read = ReadJson(json, kLimits);
  if (!read) return std::unexpected(std::move(read.error()).WithContext("the arguments of a call"));
  Value whole = std::move(*read);
  if (!whole.is_object()) return Err(ErrorCode::kInvalid, "the arguments of a call are a JSON object");
  Arguments arguments;
  if (auto args = whole.find("args"); args != whole.end()) {
    if (!args->is_array()) return Err(ErrorCode::kInvalid, "args: a list is expected");
    for (Value& value : *args) arguments.positional.push_back(std::move(value));
  }
  if (auto kwargs = whole.find("kwargs"); kwargs != whole.end()) {
    if (!kwargs->is_array()) return Err(ErrorCode::kInvalid, "kwargs: a list of pairs is expected");
    if (kwargs->size() > kMostNamed) return Err(ErrorCode::kInvalid, "kwargs: at most {} are accepted", kMostNamed);
    for (Value& pair : *kwargs) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
        return Err(ErrorCode::kInvalid, "kwargs: each is a name and a value");
      }
      auto name = pair[0].get<std::string>();
      if (std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first) != arguments.named.end()) {
        return Err(ErrorCode::kInvalid, "kwargs: '{}' is there twice", name);
      }
      arguments.named.emplace_back(std::move(name), std::move(pair[1]));
    }
  }
  return arguments;
}

}  // namespace cella::calls
