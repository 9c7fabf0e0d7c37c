// Artifacts and workflows as JSON, the same for guests and clients.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "storage/file_storage.h"

namespace cella::storage {

nlohmann::ordered_json ToJson(const Artifact& artifact);
// {"artifacts": [...], "next": the name to go on behind, or null}
nlohmann::ordered_json ToJson(const ArtifactPage& page);
// With its source, if it has one.
nlohmann::ordered_json ToJson(const Workflow& workflow);
// {"workflows": [...], "left_out": [{"file", "why"}]}
nlohmann::ordered_json ToJson(const Workflows& workflows);

}  // namespace cella::storage
