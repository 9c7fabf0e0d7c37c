#include "confine/limits.h"

#include <algorithm>

#include <sys/resource.h>

#include <cmath>

#include "base/cpu_time.h"
#include "base/units.h"

namespace cella::confine {
namespace {

// The kernel takes no larger numbers (PID_MAX_LIMIT), and we add a few of our own.
constexpr uint64_t kMostPids = 4194304 - 64;

double Seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

class Planner {
 public:
  Planner(const Policy& policy, const LimitContext& context) : policy_(policy), context_(context) {}

  Result<LimitPlan> Plan() {
    const Limits& limits = policy_.limits;
    Enforce("timeout", Seconds(limits.timeout.value), "supervisor");
    Enforce("output", static_cast<double>(limits.output.value), "supervisor");
    PlanCpuTime();
    PlanMemory();
    PlanPids();
    TRY_VOID(PlanCpus());
    TRY_VOID(PlanDisk());
    TRY_VOID(PlanOpenFiles());
    return std::move(plan_);
  }

 private:
  void Enforce(const char* name, double value, const char* by) { plan_.enforced[name] = {value, by}; }

  // A limit that the caller set and that has no mechanism here.
  Status Refuse(const char* name, double value, const std::string& why) {
    if (!policy_.best_effort) {
      return Err(ErrorCode::kUnsupported, "the limit '{}' cannot be enforced here: {}; or pass --best-effort", name,
                 why);
    }
    Enforce(name, value, "none");
    plan_.unenforced.emplace_back(name);
    return {};
  }

  void PlanCpuTime() {
    auto limit = CpuTimeOf(policy_.limits);
    plan_.exec.cpu_seconds = static_cast<uint64_t>(std::ceil(Seconds(limit)));
    plan_.cpu_time_by_cgroup = context_.has_cpuacct;
    if (!context_.has_cpuacct) plan_.watch.cpu_ns = static_cast<uint64_t>(limit.count());
    Enforce("cpu_time", Seconds(limit), context_.has_cpuacct ? "cgroup" : "rlimit+watchdog");
  }

  void PlanMemory() {
    uint64_t limit = policy_.limits.memory.value;
    if (context_.has_memory) {
      plan_.cgroup.memory = limit;
    } else {
      plan_.exec.data_bytes = limit;
      plan_.watch.memory_bytes = limit;
      plan_.strict_memory = true;
    }
    Enforce("memory", static_cast<double>(limit), context_.has_memory ? "cgroup" : "rlimit+watchdog");
  }

  void PlanPids() {
    uint64_t limit = policy_.limits.pids.value;
    const char* by = "cgroup";
    if (context_.has_pids) {
      plan_.cgroup.pids = std::min(limit, kMostPids) + 1;  // init is one of them
    } else if (context_.confinement == Confinement::kJail) {
      // Counted per user namespace (since Linux 5.14), so the caller's other processes do not matter.
      plan_.exec.processes = limit + 1;
      by = "rlimit";
    } else {
      plan_.watch.processes = limit;
      by = "watchdog";
    }
    Enforce("pids", static_cast<double>(limit), by);
  }

  Status PlanCpus() {
    if (!policy_.limits.cpus) return {};
    double cpus = *policy_.limits.cpus;
    if (!context_.has_cpu) {
      return Refuse("cpus", cpus,
                    context_.cgroup_reason.empty() ? "no cpu cgroup controller is available" : context_.cgroup_reason);
    }
    plan_.cgroup.cpus = cpus;
    Enforce("cpus", cpus, "cgroup");
    return {};
  }

  Status PlanDisk() {
    const auto& disk = policy_.limits.disk;
    auto value = static_cast<double>(disk.value);
    plan_.exec.file_bytes = disk.value;
    if (context_.confinement == Confinement::kJail && context_.private_workspace) {
      Enforce("disk", value, "tmpfs");
      return {};
    }
    // Only single files are bounded on a host directory.
    if (disk.asked) {
      return Refuse("disk", value,
                    context_.confinement == Confinement::kJail
                        ? "a host directory given with --workdir has no size limit; leave --workdir out and copy files "
                          "with --file and --out"
                        : "the local executor writes to the host's file system; use --executor sandbox");
    }
    Enforce("disk", value, "rlimit");
    return {};
  }

  Status PlanOpenFiles() {
    const auto& files = policy_.limits.open_files;
    if (files.value > context_.open_files_maximum) {
      if (files.asked) {
        return Refuse(
            "open_files", static_cast<double>(files.value),
            fmt::format("this process may have {} itself (raise it with ulimit -Hn)", context_.open_files_maximum));
      }
      plan_.exec.open_files = context_.open_files_maximum;
    } else {
      plan_.exec.open_files = files.value;
    }
    Enforce("open_files", static_cast<double>(plan_.exec.open_files), "rlimit");
    return {};
  }

  const Policy& policy_;
  const LimitContext& context_;
  LimitPlan plan_;
};

}  // namespace

LimitContext ObserveMachine(const os::CgroupHost& host, Confinement confinement, bool private_workspace) {
  LimitContext context;
  context.confinement = confinement;
  context.private_workspace = private_workspace;
  rlimit files = {};
  context.open_files_maximum = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : 1024;
  context.has_cpu = host.has_cpu();
  context.has_memory = host.has_memory();
  context.has_pids = host.has_pids();
  context.has_cpuacct = host.has_cpuacct();
  context.cgroup_reason = host.reason();
  return context;
}

Result<LimitPlan> PlanLimits(const Policy& policy, const LimitContext& context) {
  return Planner(policy, context).Plan();
}

Result<LimitPlan> PlanSessionLimits(const Policy& policy, const LimitContext& context) {
  // The automatic checkpoint, the one that replaces it, and the named ones.
  constexpr uint64_t kCopies = 2 + kMaxNamedCheckpoints;
  TRY(LimitPlan plan, PlanLimits(policy, context));
  // A process's own limit of time cannot start anew with each run.
  plan.exec.cpu_seconds = 0;
  if (plan.enforced["cpu_time"].by == "rlimit+watchdog") plan.enforced["cpu_time"].by = "watchdog";
  for (const char* name : {"timeout", "cpu_time"}) plan.enforced[name].during = "runs";
  if (plan.cgroup.pids) *plan.cgroup.pids += kCopies;
  if (plan.exec.processes != 0) plan.exec.processes += kCopies;
  return plan;
}

std::optional<StopReason> ToStopReason(jail::KillReason reason) {
  switch (reason) {
    case jail::KillReason::kNone: return std::nullopt;
    case jail::KillReason::kMemory: return StopReason::kMemory;
    case jail::KillReason::kCpuTime: return StopReason::kCpuTime;
    case jail::KillReason::kProcesses: return StopReason::kProcesses;
  }
  return std::nullopt;
}

}  // namespace cella::confine
