#include "jupyter/json.h"

namespace cella::jupyter {
namespace {

constexpr int kDeepest = 64;
// A value of the parsed form takes up to a hundred bytes, whatever it takes as text.
constexpr size_t kMostElements = 200'000;

bool IsWithinBounds(std::string_view text) {
  int depth = 0;
  size_t elements = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    switch (c) {
      case '"': quoted = true; break;
      case '[':
      case '{':
        if (++depth > kDeepest) return false;
        [[fallthrough]];
      case ',':
        if (++elements > kMostElements) return false;
        break;
      case ']':
      case '}': --depth; break;
      default: break;
    }
  }
  return true;
}

}  // namespace

std::optional<Json> ParseObject(std::string_view text) {
  if (!IsWithinBounds(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string Text(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool Flag(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

int64_t Number(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

const Json& Object(const Json& json, const char* key) {
  static const Json kEmpty = Json::object();
  auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : kEmpty;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace cella::jupyter
