#include "policy/describe.h"

#include <nlohmann/json.hpp>

#include "policy/read.h"

namespace cella::policy {
namespace {

using Json = nlohmann::ordered_json;

// Numbers, so that a client can compare; sizes and durations may be written as texts too.
struct Number {
  Json operator()(Nanoseconds time) const { return std::chrono::duration<double>(time).count(); }
  Json operator()(const Limit<Nanoseconds>& limit) const { return (*this)(limit.value); }
  Json operator()(const Limit<uint64_t>& limit) const { return limit.value; }
  Json operator()(const std::optional<double>& share) const { return share ? Json(*share) : Json(); }
  Json operator()(const auto&) const { return {}; }
};

Json TypeOf(Kind kind) {
  Json text = {{"type", "string"}};
  switch (kind) {
    case Kind::kSwitch: return {{"type", "boolean"}};
    case Kind::kSize:
    case Kind::kCount: return {{"type", {"integer", "string"}}};
    case Kind::kDuration:
    case Kind::kCpus: return {{"type", {"number", "string"}}};
    case Kind::kEnvironment: {
      const Json texts = {{"type", "array"}, {"items", text}};
      return {{"oneOf",
               {text,
                {{"type", "object"},
                 {"additionalProperties", false},
                 {"properties", {{"python", text}, {"packages", texts}, {"preload", texts}}}}}}};
    }
    case Kind::kPackages:
    case Kind::kModules:
    case Kind::kCapabilities: return {{"type", "array"}, {"items", text}};
    case Kind::kDevices: return {{"type", "array"}, {"items", {{"type", "object"}}}};
    case Kind::kHosts:
    case Kind::kVariables:
    case Kind::kLabels: return {{"type", "object"}, {"additionalProperties", text}};
    case Kind::kMounts:
      return {{"type", "array"},
              {"items",
               {{"type", "object"},
                {"required", {"source", "target"}},
                {"additionalProperties", false},
                {"properties",
                 {{"source", text}, {"target", text}, {"mode", {{"type", "string"}, {"enum", {"ro", "rw"}}}}}}}}};
    default: return text;
  }
}

Json SchemaOf(const Key& key, const SessionSpec& maxima) {
  Json schema = TypeOf(key.kind);
  schema["description"] = key.help;
  if (key.kind == Kind::kWord) schema["enum"] = WordsOf(key);
  if (!key.least.empty()) {
    SessionSpec least;
    (void)SetText(key, key.least, &least);
    schema["minimum"] = WithValue(key, least, Number{});
  }
  if (key.ask == Ask::kUpToMaximum) {
    if (Json most = WithValue(key, maxima, Number{}); !most.is_null()) schema["maximum"] = std::move(most);
  }
  return schema;
}

std::string_view ToString(Ask ask) {
  switch (ask) {
    case Ask::kAnything: return "anything";
    case Ask::kUpToMaximum: return "up to the maximum";
    case Ask::kAllowed: return "what the operator allows";
    case Ask::kNever: return "nothing";
  }
  return "nothing";
}

std::string_view ToString(Commands commands) {
  switch (commands) {
    case Commands::kNone: return "none";
    case Commands::kSessions: return "repl";
    case Commands::kAll: return "run, repl";
  }
  return "none";
}

Json OrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string DescribeKind(const Key& key) {
  switch (key.kind) {
    case Kind::kText: return "text";
    case Kind::kPath: return "absolute path";
    case Kind::kModules: return "list of modules";
    case Kind::kSwitch: return "true or false";
    case Kind::kSize: return "size";
    case Kind::kCount: return "count";
    case Kind::kDuration: return "duration";
    case Kind::kCpus: return "number";
    case Kind::kWord: return fmt::format("one of {}", std::get<WordField>(key.field).words());
    case Kind::kVariables: return "table of texts";
    case Kind::kMounts: return "list of mounts";
    case Kind::kName: return "name";
    case Kind::kPackages: return "list of packages";
    case Kind::kEnvironment: return "name, or table of python, packages, preload";
    case Kind::kLabels: return "texts by name";
    case Kind::kHosts: return "addresses by name";
    case Kind::kDevices: return "list of device requests";
    case Kind::kCapabilities: return "list of capabilities";
  }
  return "text";
}

std::string DescribeDefault(const Key& key) {
  std::string value = Show(key, SessionSpec{});
  return value.empty() ? std::string(key.empty) : value;
}

Json DescribeDocument(const SessionSpec& maxima) {
  const Json object = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  Json document = object;
  for (const Key& key : Keys()) {
    if (key.ask == Ask::kNever) continue;
    Json* place = &document;
    std::string_view rest = key.name;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      Json& inner = (*place)["properties"][std::string(rest.substr(0, dot))];
      if (inner.is_null()) inner = object;
      place = &inner;
      rest.remove_prefix(dot + 1);
    }
    (*place)["properties"][std::string(rest)] = SchemaOf(key, maxima);
  }
  return document;
}

Json DescribeKeys() {
  Json keys = Json::array();
  for (const Key& key : Keys()) {
    Json executors = Json::array();
    for (const ExecutorRow& row : kExecutors) {
      if (Has(key.executors, row.kind)) executors.push_back(row.name);
    }
    keys.push_back({{"name", key.name},
                    {"kind", DescribeKind(key)},
                    {"default", DescribeDefault(key)},
                    {"least", OrNull(key.least)},
                    {"maximum", OrNull(key.maximum == "none" ? "" : key.maximum)},
                    {"clients", ToString(key.ask)},
                    {"executors", std::move(executors)},
                    {"section", OrNull(key.section)},
                    {"option", OrNull(key.option)},
                    {"commands", ToString(key.commands)},
                    {"python", OrNull(key.python)},
                    {"help", key.help}});
  }
  return keys;
}

}  // namespace cella::policy
