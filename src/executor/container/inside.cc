#include "executor/container/inside.h"

namespace cella::executor {

confine::EnvVars VariablesInside() {
  confine::EnvVars variables;
  variables.Set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  variables.Set("HOME", kHomeInside);
  variables.Set("TMPDIR", "/tmp");
  variables.Set("LANG", "C.UTF-8");
  variables.Set("USER", "cella");
  return variables;
}

confine::EnvVars GuestVariablesInside(const run::GuestSpec& spec, const language::Plan& plan) {
  confine::EnvVars variables = confine::GuestEnvVars(VariablesInside(), plan, spec.policy);
  if (!spec.spaces.empty()) confine::AddCalls(jail::kCallSocket, kProgramsInside, &variables);
  return variables;
}

std::optional<os::CgroupUsage> UsageOf(const AgentBridge& bridge) {
  const agent::Ready& ready = bridge.ready();
  if (ready.has_memory_cgroup == 0 && ready.has_pids_cgroup == 0) return std::nullopt;
  os::CgroupUsage usage;
  if (ready.has_memory_cgroup != 0) usage.oom_kills = bridge.counters().oom_kills;
  if (ready.has_pids_cgroup != 0) usage.pids_refused = bridge.counters().refused_forks;
  return usage;
}

}  // namespace cella::executor
