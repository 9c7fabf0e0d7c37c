#include "storage/json.h"

#include <fmt/chrono.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace cella::storage {
namespace {

using Json = nlohmann::ordered_json;

std::string At(int64_t ms) {
  return fmt::format("{:%FT%TZ}", std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(ms)));
}

}  // namespace

Json ToJson(const Artifact& artifact) {
  Json metadata = Json::parse(artifact.metadata, nullptr, false);
  return {{"name", artifact.name},
          {"kind", ToString(artifact.kind)},
          {"size", artifact.size},
          {"description", artifact.description},
          {"metadata", metadata.is_object() ? std::move(metadata) : Json::object()},
          {"origin", ToString(artifact.origin)},
          {"created_at", At(artifact.created_ms)},
          {"updated_at", At(artifact.updated_ms)}};
}

Json ToJson(const ArtifactPage& page) {
  Json list = Json::array();
  for (const Artifact& artifact : page.artifacts) list.push_back(ToJson(artifact));
  const bool more = page.more && !page.artifacts.empty();
  return {{"artifacts", std::move(list)}, {"next", more ? Json(page.artifacts.back().name) : Json(nullptr)}};
}

Json ToJson(const Workflow& workflow) {
  Json json = {{"name", workflow.name},
               {"description", workflow.description},
               {"origin", ToString(workflow.origin)},
               {"approved", workflow.approved},
               {"sha256", workflow.sha256}};
  if (!workflow.source.empty()) json["source"] = workflow.source;
  return json;
}

Json ToJson(const Workflows& workflows) {
  Json list = Json::array(), left_out = Json::array();
  for (const Workflow& workflow : workflows.found) list.push_back(ToJson(workflow));
  for (const LeftOut& each : workflows.left_out) left_out.push_back({{"file", each.file}, {"why", each.why}});
  return {{"workflows", std::move(list)}, {"left_out", std::move(left_out)}};
}

}  // namespace cella::storage
