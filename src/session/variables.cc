#include "session/variables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/text.h"

namespace cella::session {
namespace {

using Json = nlohmann::json;

// Names that begin with two underscores are Python's and the runner's.
bool IsVariable(std::string_view name) {
  constexpr size_t kMostBytes = 128;
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kMostBytes && !(name[0] >= '0' && name[0] <= '9') && !name.starts_with("__") &&
         std::ranges::all_of(name, fits);
}

// The text of the one key `key`; null: it is another value.
const std::string* Wrapped(const Json& value, const char* key) {
  if (!value.is_object() || value.size() != 1) return nullptr;
  auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

}  // namespace

Result<std::vector<Variable>> ReadVariables(const Json& document) {
  if (!document.is_object()) return Err(ErrorCode::kInvalid, "variables: an object of names and values is expected");
  std::vector<Variable> variables;
  for (const auto& [name, value] : document.items()) {
    Variable variable{.name = name, .kind = Variable::Kind::kJson, .data = {}};
    if (value.is_string()) {
      variable.kind = Variable::Kind::kText;
      variable.data = value.get<std::string>();
    } else if (const std::string* bytes = Wrapped(value, "$bytes")) {
      variable.kind = Variable::Kind::kBytes;
      TRY(variable.data, DecodeBase64(*bytes));
    } else if (const std::string* text = Wrapped(value, "$json")) {
      variable.data = *text;
    } else {
      variable.data = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

Status CheckVariables(const std::vector<Variable>& variables) {
  constexpr size_t kMostVariables = 256;
  if (variables.size() > kMostVariables) {
    return Err(ErrorCode::kInvalid, "variables: at most {} are accepted", kMostVariables);
  }
  for (const Variable& variable : variables) {
    if (IsVariable(variable.name)) continue;
    return Err(ErrorCode::kInvalid,
               "variables: '{}' is no name: letters, digits and '_', at most 128, not '__' in front",
               ToUtf8Lossy(variable.name.substr(0, 128)));
  }
  return {};
}

}  // namespace cella::session
