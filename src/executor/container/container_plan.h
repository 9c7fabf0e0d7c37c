// From a policy to the container that holds it, and to what it then truly enforces. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/wire.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "confine/limits.h"
#include "docker/container_spec.h"

namespace cella::executor {

// What the plan needs to know of the supervisor and its machine.
struct ContainerSurroundings {
  std::string programs;       // the host's directory with the runners and the agent
  std::string owner;          // for the label
  uint32_t uid = 0, gid = 0;  // as whom the guest runs, unless the policy names a user
  bool rootless = false;      // the engine: uid 0 inside is the caller
  bool podman = false;        // the engine
  bool packages = false;      // the session may get packages
  uint64_t open_files_maximum = 0;
  uint64_t processes_maximum = 0;  // our own hard limits
};

struct ContainerPlan {
  docker::ContainerSpec spec;
  confine::LimitPlan limits;
};

enum class LimitsFor { kProgram, kSession };

// kInvalid, kUnsupported: what the policy asks for has no meaning in a container, or no mechanism.
Status CheckContainerPolicy(const Policy& policy);

// Of a policy that was checked. kPermission, kUnsupported: this user, or with these rights, the code cannot run as.
Result<ContainerPlan> PlanContainer(const Policy& policy, ContainerSurroundings surroundings, LimitsFor what);

// The engine dropped some of what it was asked for: limits that the agent can hold move to it, others are refused by
// name.
Status AdaptToEngine(const Policy& policy, const std::vector<docker::Missing>& missing, ContainerPlan* plan);

// `name` is the container's.
Isolation DescribeContainer(const Policy& policy, const ContainerPlan& plan, const agent::Ready& ready,
                            const std::string& name);

// Whether the container is there after its session.
bool Stays(const ContainerPolicy& policy);

}  // namespace cella::executor
