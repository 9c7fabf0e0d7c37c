#include "server/container_admission.h"

#include "policy/names.h"

namespace cella::server {
namespace {

constexpr const char* kAskOperator = "the server's configuration decides; ask whoever runs it";

std::unexpected<ApiError> NotAllowed(std::string_view key, std::string_view value) {
  return Forbidden(fmt::format("{}: this server does not allow '{}'", key, policy::Shown(value)), kAskOperator);
}

// Keys that reach the host or the engine. The engine itself opens host paths, as root and following links, so that not
// even an allowed directory is safe: a guest may have put a link there.
Answer<void> CheckReach(const ContainerPolicy& asked, const ContainerPolicy& defaults, const IsGiven& given) {
  for (const char* key :
       {"workdir", "mounts", "container.name", "container.engine", "container.runtime", "container.bind_dir"}) {
    if (!given(key)) continue;
    return Forbidden(fmt::format("{}: this server does not allow it for containers", key), kAskOperator);
  }
  if (!asked.read_only) return NotAllowed("container.read_only", "false");
  if (given("container.image") && asked.image != defaults.image) return NotAllowed("container.image", asked.image);
  if (given("container.pull") && asked.pull) return NotAllowed("container.pull", "missing");
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
  if (policy->network == Network::kBridge && !config.allow.network_host) return NotAllowed("network", "bridge");
  const ContainerPolicy& defaults = config.defaults.policy.container;
  if (!config.allow.whole_machine) TRY_VOID(CheckReach(asked, defaults, given));
  policy->container = asked;
  if (!given("container.engine")) policy->container.engine = defaults.engine;
  if (!given("container.image")) policy->container.image = defaults.image;
  // The operator provides the image.
  if (!config.allow.whole_machine) policy->container.pull = false;
  return {};
}

}  // namespace cella::server
