#include "doctor/cgroup_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>

#include "os/cgroup.h"

namespace cella::doctor {
namespace {

constexpr uint64_t kTrialMemory = uint64_t{64} << 20;
constexpr uint64_t kTrialPids = 16;
constexpr double kTrialCpus = 0.5;

std::optional<bool> AccountsSwap(const os::Cgroup& group) {
  if (group.v2_dir() >= 0) return faccessat(group.v2_dir(), "memory.swap.max", F_OK, 0) == 0;
  for (const UniqueFd& tasks : group.v1_tasks()) {
    char target[PATH_MAX];
    ssize_t length = readlink(fmt::format("/proc/self/fd/{}", tasks.get()).c_str(), target, sizeof target);
    if (length <= 0) continue;
    std::string directory(target, static_cast<size_t>(length));
    directory.resize(directory.rfind('/') + 1);
    if (access((directory + "memory.limit_in_bytes").c_str(), F_OK) != 0) continue;
    return access((directory + "memory.memsw.limit_in_bytes").c_str(), F_OK) == 0;
  }
  return std::nullopt;
}

}  // namespace

CgroupFacts TryCgroups() {
  os::CgroupHost host = os::CgroupHost::Probe();
  CgroupFacts facts;
  facts.version = Name(host.version());
  facts.memory = host.has_memory();
  facts.pids = host.has_pids();
  facts.cpu = host.has_cpu();
  facts.cpuacct = host.has_cpuacct();
  facts.reason = host.reason();
  if (host.version() == os::CgroupVersion::kNone) return facts;
  os::CgroupLimits limits;
  if (facts.memory) limits.memory = kTrialMemory;
  if (facts.pids) limits.pids = kTrialPids;
  if (facts.cpu) limits.cpus = kTrialCpus;
  auto group = host.Create("doctor", limits);
  if (!group) {
    facts.failure = group.error().message;
  } else if (facts.memory) {
    facts.swap_accounted = AccountsSwap(*group);
  }
  return facts;
}

}  // namespace cella::doctor
