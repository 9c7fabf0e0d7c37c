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
  uint32_t uid = 0, gid = 0;  // as whom the guest runs
  uint64_t open_files_maximum = 0;
  uint64_t processes_maximum = 0;  // our own hard limits
};

struct ContainerPlan {
  docker::ContainerSpec spec;
  confine::LimitPlan limits;
};

enum class LimitsFor { kProgram, kSession };

// kInvalid, kUnsupported: what the policy asks for has no meaning in a container, or no mechanism.
Result<ContainerPlan> PlanContainer(const Policy& policy, const ContainerSurroundings& surroundings, LimitsFor what);

// The engine dropped some of what it was asked for: limits that the agent can hold move to it, others are refused by
// name.
Status AdaptToEngine(const Policy& policy, const std::vector<docker::Missing>& missing, ContainerPlan* plan);

Isolation DescribeContainer(const Policy& policy, const ContainerPlan& plan, const agent::Ready& ready);

}  // namespace cella::executor
