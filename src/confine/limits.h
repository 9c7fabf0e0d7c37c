// Which mechanism enforces each limit here, and a refusal where none does.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "confine/spec_builder.h"
#include "jail/spec.h"
#include "os/cgroup.h"
#include "run/judge.h"

namespace cella::confine {

enum class Confinement { kJail, kNone };

// Of a session, beside the automatic one.
inline constexpr size_t kMaxNamedCheckpoints = 8;

struct LimitPlan {
  os::CgroupLimits cgroup;
  jail::ProcessLimits exec = {};
  jail::WatchLimits watch = {};
  // Init looks at the guest while a run is on.
  bool IsWatched() const { return watch.memory_bytes != 0 || watch.cpu_ns != 0 || watch.processes != 0; }
  bool strict_memory = false;       // no memory cgroup: the filter must refuse memory that nothing else counts
  bool cpu_time_by_cgroup = false;  // the supervisor compares the group's processor time
  std::map<std::string, EnforcedLimit> enforced;
  std::vector<std::string> unenforced;
};

// Why init killed a guest, as a fact for the judge.
std::optional<StopReason> ToStopReason(jail::KillReason reason);

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

}  // namespace cella::confine
