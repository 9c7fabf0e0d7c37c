#include "server/openapi.h"

#include <nlohmann/json.hpp>

#include "policy/describe.h"
#include "server/answer.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

// "/v1/files/{path...}" is written "/v1/files/{path}": the document knows no other way.
std::string PathOf(std::string_view pattern, Json* parameters) {
  std::string path;
  while (!pattern.empty()) {
    const size_t open = pattern.find('{');
    path += pattern.substr(0, open);
    if (open == std::string_view::npos) break;
    pattern.remove_prefix(open + 1);
    std::string_view name = pattern.substr(0, pattern.find('}'));
    pattern.remove_prefix(name.size() + 1);
    if (name.ends_with("...")) name.remove_suffix(3);
    path += "{" + std::string(name) + "}";
    parameters->push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  return path;
}

std::string OperationId(std::string_view method, std::string_view pattern) {
  std::string id;
  for (char c : method) id += static_cast<char>(c | 0x20);
  bool start = true;
  for (char c : pattern) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter) id += start ? static_cast<char>(c >= 'a' ? c - 32 : c) : c;
    start = !letter;
  }
  return id;
}

Json RunSchema() {
  const Json text = {{"type", "string"}};
  const Json flag = {{"type", "boolean"}};
  return {
      {"type", "object"},
      {"additionalProperties", false},
      {"properties",
       {{"code", text},
        {"language", text},
        {"blocks",
         {{"type", "array"}, {"items", {{"type", "object"}, {"properties", {{"language", text}, {"code", text}}}}}}},
        {"as", {{"type", "string"}, {"enum", {"cell", "program"}}}},
        {"file", text},
        {"args", {{"type", "array"}, {"items", text}}},
        {"cwd", text},
        {"timeout", {{"type", {"number", "string"}}}},
        {"stdin", text},
        {"input", flag},
        {"wait", flag},
        {"idempotency_key", text},
        {"cancel_on_disconnect", flag},
        {"variables", {{"type", "object"}}}}}};
}

Json ErrorSchema() {
  const Json text = {{"type", "string"}};
  return {{"type", "object"},
          {"properties",
           {{"error", {{"type", "object"}, {"properties", {{"code", text}, {"message", text}, {"hint", text}}}}}}}};
}

}  // namespace

std::string DescribeApi(const Router& router, const SessionSpec& maxima) {
  Json paths = Json::object();
  for (const Route& route : router.routes()) {
    Json parameters = Json::array();
    const std::string path = PathOf(route.pattern, &parameters);
    Json operation = {{"operationId", OperationId(route.method, route.pattern)}, {"summary", route.summary}};
    if (!parameters.empty()) operation["parameters"] = std::move(parameters);
    if (route.access == Access::kOpen) operation["security"] = Json::array();
    if (route.method == "POST" && (route.pattern.ends_with("/runs") || route.pattern == "/v1/run")) {
      operation["requestBody"] = {
          {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Run"}}}}}}}};
    } else if (route.method == "POST" && route.pattern == "/v1/sessions") {
      operation["requestBody"] = {
          {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Policy"}}}}}}}};
    }
    operation["responses"] = {
        {"2XX", {{"description", "Done"}}},
        {"4XX",
         {{"description", "Refused"},
          {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}};
    std::string method;
    for (char c : route.method) method += static_cast<char>(c | 0x20);
    paths[path][method] = std::move(operation);
  }
  Json document = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Cella"}, {"version", CELLA_VERSION}, {"license", {{"name", "see the repository"}}}}},
      {"security", Json::array({Json{{"bearer", Json::array()}}})},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
        {"schemas", {{"Run", RunSchema()}, {"Policy", policy::DescribeDocument(maxima)}, {"Error", ErrorSchema()}}}}}};
  return ToText(document);
}

}  // namespace cella::server
