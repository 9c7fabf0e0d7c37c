#include "confine/isolation.h"

namespace cella::confine {

Isolation DescribeSandbox(const Policy& policy, const LimitPlan& limits, const os::CgroupHost& cgroups,
                          const Jail::Ready& ready) {
  Isolation isolation;
  isolation.executor = "sandbox";
  isolation.namespaces = {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"};
  if (policy.network == Network::kHost) std::erase(isolation.namespaces, "net");
  isolation.seccomp = true;
  isolation.landlock = ready.landlock_abi;
  isolation.cgroup = os::Name(cgroups.version());
  isolation.network = policy.network == Network::kHost ? "host" : "none";
  isolation.proc = ready.own_proc ? "own" : "none";
  isolation.limits = limits.enforced;
  isolation.unenforced = limits.unenforced;
  return isolation;
}

Status CheckWatch(const Policy& policy, LimitPlan* limits, const Jail::Ready& ready) {
  if (ready.own_proc) return {};
  for (const char* name : {"memory", "cpu_time"}) {
    EnforcedLimit& limit = limits->enforced[name];
    if (limit.by != "rlimit+watchdog") continue;
    bool asked = std::string_view(name) == "memory" ? policy.limits.memory.asked : policy.limits.cpu_time.asked;
    if (asked && !policy.best_effort) {
      return Err(
          ErrorCode::kUnsupported,
          "the limit '{}' cannot be enforced here: there is neither a cgroup nor a /proc of its own (a container "
          "that masks /proc); run the container with a writable cgroup, or pass --best-effort",
          name);
    }
    limit.by = "rlimit";  // of each process, not of their sum
    if (asked) limits->unenforced.emplace_back(name);
  }
  return {};
}

std::optional<os::FsIdentity> WorkspaceOwner(const BuildIdentity& identity) {
  if (identity.mode == BuildMode::kOrdinary) return std::nullopt;
  return os::FsIdentity{identity.host_uid, identity.host_gid};
}

}  // namespace cella::confine
