#include "executor/container/inside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "async/deadline.h"

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

std::optional<os::Directory> OpenWorkdir(const Policy& policy) {
  if (policy.workdir.empty() || !policy.container.user.empty()) return std::nullopt;
  UniqueFd fd(open(policy.workdir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) < 0) return std::nullopt;
  // Root writes there as the guest does, which has the owner's id.
  std::optional<os::FsIdentity> identity;
  if (geteuid() == 0 && info.st_uid != 0) identity = {info.st_uid, info.st_gid};
  return os::Directory(std::move(fd), identity);
}

async::Task<run::GuestUsage> MeasureContainer(AgentBridge& bridge) {
  using namespace std::chrono_literals;
  constexpr auto kPatience = 2s;
  run::GuestUsage usage;
  usage.alive = !bridge.is_gone();
  auto answer = co_await async::WithDeadline(bridge.Ask(agent::Kind::kMeasure, ""), async::Clock::now() + kPatience);
  agent::Measured measured = {};
  if (!answer || !*answer || (*answer)->content.size() != sizeof measured) co_return usage;
  std::memcpy(&measured, (*answer)->content.data(), sizeof measured);
  usage.memory = measured.memory;
  // A guest has the agent's user id, and may claim anything.
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  usage.cpu = std::chrono::nanoseconds(static_cast<int64_t>(std::min(measured.cpu_ns, kMost)));
  usage.processes = measured.processes;
  co_return usage;
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
