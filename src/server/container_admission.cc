#include "server/container_admission.h"

#include <algorithm>

#include "policy/keys.h"
#include "policy/names.h"

namespace cella::server {
namespace {

constexpr const char* kAskOperator = "the server's configuration decides; ask its operator";

std::unexpected<ApiError> NotAllowed(std::string_view key, std::string_view value) {
  return Forbidden(fmt::format("{}: this server does not allow '{}'", key, policy::Shown(value)), kAskOperator);
}

// As clients may name it.
std::string DefaultImage(const Config& config) {
  const std::string& image = config.defaults.policy.container.image;
  return image.empty() ? std::string(policy::Find("container.image")->empty) : image;
}

bool Lists(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

// Keys that reach the host or the engine. The engine itself opens host paths, as root and following links, so that not
// even an allowed directory is safe: a guest may have put a link there.
Answer<void> CheckReach(const ContainerPolicy& asked, const IsGiven& given, const Config& config) {
  for (const char* key :
       {"workdir", "mounts", "container.name", "container.engine", "container.bind_dir", "container.user",
        "container.extra_hosts", "container.device_requests", "container.cap_add"}) {
    if (!given(key)) continue;
    return Forbidden(fmt::format("{}: this server does not allow it for containers", key), kAskOperator);
  }
  if (!asked.read_only) return NotAllowed("container.read_only", "false");
  if (!asked.auto_remove) return NotAllowed("container.auto_remove", "false");
  if (!asked.stop_container) return NotAllowed("container.stop_container", "false");
  const Config::Containers& rules = config.containers;
  if (given("container.image") && asked.image != DefaultImage(config) && !Lists(rules.images, asked.image)) {
    return NotAllowed("container.image", asked.image);
  }
  if (given("container.pull") && asked.pull && !rules.pull) return NotAllowed("container.pull", "missing");
  if (given("container.runtime") && !Lists(rules.runtimes, asked.runtime)) {
    return NotAllowed("container.runtime", asked.runtime);
  }
  return {};
}

}  // namespace

Answer<void> AdmitContainer(const ContainerPolicy& asked, const IsGiven& given, const Config& config, Policy* policy) {
  // Defaults of the other executors.
  policy->venv.clear();
  policy->rootfs.clear();
  policy->python.clear();
  if (policy->network == Network::kHost) {
    if (given("network")) return Invalid("network: a container has no 'host'", "use none or bridge");
    policy->network = Network::kNone;
  }
  // A container reaches other machines by way of the host, as the host itself does.
  const bool bridge = config.containers.bridge || config.allow.network_host;
  if (policy->network == Network::kBridge && given("network") && !bridge) return NotAllowed("network", "bridge");
  const ContainerPolicy& defaults = config.defaults.policy.container;
  if (!config.allow.whole_machine) TRY_VOID(CheckReach(asked, given, config));
  policy->container = asked;
  if (!given("container.engine")) policy->container.engine = defaults.engine;
  if (!given("container.image")) policy->container.image = defaults.image;
  // Else the operator provides the images.
  if (!config.allow.whole_machine && !config.containers.pull) policy->container.pull = false;
  return {};
}

}  // namespace cella::server
