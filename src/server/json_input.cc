#include "server/json_input.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "server/names.h"

namespace cella::server {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;

}  // namespace

Answer<json> ParseJsonObject(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool too_deep = false;
  // The parser keeps the last of equal keys; whoever looked at the first (a proxy, a log) saw another request.
  auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) too_deep = true;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second && twice.empty()) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  json parsed = json::parse(body, watch, false);
  if (parsed.is_discarded()) return Invalid("the body is not JSON");
  if (!parsed.is_object()) return Invalid("the body is not a JSON object");
  if (too_deep) return Invalid(fmt::format("the body is nested deeper than {} levels", kMaxDepth));
  if (!twice.empty()) return Invalid(fmt::format("the key '{}' is there twice", Shown(twice)));
  return parsed;
}

Scalar ToScalar(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return std::string_view(value.get_ref<const std::string&>());
  return std::monostate();
}

}  // namespace cella::server
