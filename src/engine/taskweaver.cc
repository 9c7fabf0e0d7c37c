#include "engine/taskweaver.h"

#include <cstdlib>

#include "jupyter/json.h"
#include "os/io.h"

namespace cella::engine {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 20;
constexpr const char* kKey = "execution_service.kernel_mode";
constexpr const char* kImageKey = "execution_service.custom_image";
// Built from TaskWeaver's sources. Where the engine does not have it, the executor takes its own default.
constexpr const char* kDefaultImage = "executor_container";

}  // namespace

void TaskWeaver::Apply(Policy* policy) const {
  policy->values_of_assignments = true;
  policy->system_packages = true;
  if (executor != ExecutorKind::kContainer) return;
  policy->container.image = image.empty() ? kDefaultImage : image;
  // With the name alone the engine could take another tag.
  if (image == kDefaultImage) policy->container.image += ":latest";
  policy->container.pull = image.empty();
}

Result<TaskWeaver> ParseTaskWeaver(const std::string& text, const std::string& variable) {
  const auto json = jupyter::ParseObject(text);
  if (!json) return Err(ErrorCode::kInvalid, "it is no JSON object");
  std::string mode = variable;
  if (mode.empty()) {
    auto found = json->find(kKey);
    if (found != json->end() && !found->is_string()) return Err(ErrorCode::kInvalid, "{} must be a text", kKey);
    mode = jupyter::Text(*json, kKey);
  }
  TaskWeaver found;
  if (mode.empty() || mode == "local" || mode == "SubProcess") return found;
  if (mode == "container" || mode == "Container") {
    found.executor = ExecutorKind::kContainer;
    auto image = json->find(kImageKey);
    if (image != json->end() && !image->is_null() && !image->is_string()) {
      return Err(ErrorCode::kInvalid, "{} must be a text", kImageKey);
    }
    found.image = jupyter::Text(*json, kImageKey);
    return found;
  }
  return Err(ErrorCode::kInvalid, "{}: '{}' is none of local, SubProcess, container and Container", kKey,
             mode.substr(0, 100));
}

Result<TaskWeaver> ReadTaskWeaver(const std::string& path) {
  const char* variable = std::getenv("EXECUTION_SERVICE_KERNEL_MODE");
  TRY(const std::string text, os::ReadFile(path, kMaxFile));
  auto read = ParseTaskWeaver(text, variable == nullptr ? "" : variable);
  if (!read) return std::unexpected(std::move(read.error()).WithContext(fmt::format("'{}'", path)));
  return read;
}

}  // namespace cella::engine
