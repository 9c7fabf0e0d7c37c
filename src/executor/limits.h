// Which mechanism enforces each limit here, and a refusal where none does.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "executor/spec_builder.h"
#include "jail/spec.h"
#include "os/cgroup.h"

namespace cella::executor {

enum class Confinement { kJail, kNone };

// After SIGINT, before SIGKILL. Only code that does not listen waits so long, and a busy machine may keep a listener
// from answering for a while.
inline constexpr auto kInterruptGrace = std::chrono::seconds(1);

struct LimitPlan {
  os::CgroupLimits cgroup;
  jail::ProcessLimits exec = {};
  jail::WatchLimits watch = {};
  bool strict_memory = false;       // no memory cgroup: the filter must refuse memory that nobody else counts
  bool cpu_time_by_cgroup = false;  // the supervisor compares the group's processor time
  std::map<std::string, EnforcedLimit> enforced;
  std::vector<std::string> unenforced;
};

// What is known of the machine.
struct LimitContext {
  Confinement confinement = Confinement::kJail;
  bool private_workspace = true;
  uint64_t open_files_maximum = 0;  // our own hard limit
  bool has_cpu = false, has_memory = false, has_pids = false, has_cpuacct = false;
  std::string cgroup_reason;
};

LimitContext ObserveMachine(const os::CgroupHost& host, Confinement confinement, bool private_workspace);

Result<LimitPlan> PlanLimits(const Policy& policy, const LimitContext& context);
// For a session: limits of time are each run's, and its checkpoints need room.
Result<LimitPlan> PlanSessionLimits(const Policy& policy, const LimitContext& context);

}  // namespace cella::executor
