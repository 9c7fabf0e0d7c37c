#include "executor/container/container_plan.h"

#include <algorithm>

#include "executor/container/container.h"
#include "executor/container/inside.h"

namespace cella::executor {
namespace {

// The agent and init, which the engine counts as well.
constexpr uint64_t kOwnProcesses = 2;
constexpr uint64_t kMostOwnProcesses = 10;
constexpr uint64_t kMostShared = uint64_t{64} << 20;
constexpr const char* kDefaultImage = "python:3-slim";

docker::TmpfsMount Scratch(const char* target, uint64_t bytes, const ContainerSurroundings& surroundings) {
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  const uint64_t inodes = std::max<uint64_t>(1024, bytes / 16384);
  return {target, fmt::format("rw,exec,nosuid,nodev,size={},nr_inodes={},mode=0700,uid={},gid={}", bytes, inodes,
                              surroundings.uid, surroundings.gid)};
}

Status CheckPolicy(const Policy& policy) {
  auto refuse = [](const char* option, const char* instead) {
    return Err(ErrorCode::kInvalid, "{} has no meaning in a container: {}", option, instead);
  };
  if (policy.network == Network::kHost)
    return refuse("--network host", "it would share the host's network; use none or bridge");
  if (!policy.rootfs.empty()) return refuse("--rootfs", "the image is its root; use --image");
  if (!policy.container.bind_dir.empty() && policy.workdir.empty()) {
    return Err(ErrorCode::kInvalid,
               "bind_dir is the working directory as the engine names it: set the working directory too");
  }
  if (!policy.container.read_only && policy.limits.disk.asked && !policy.best_effort) {
    return Err(ErrorCode::kUnsupported,
               "the limit 'disk' cannot be enforced here: the image's files are writable and have no size limit; leave "
               "them read-only, or pass --best-effort");
  }
  if (!policy.venv.empty())
    return refuse("--venv", "the image's interpreter runs the code; use an image with the packages");
  if (policy.python.find('/') != policy.python.npos) {
    return refuse("--python with a path", "the image's interpreter runs the code; use --image");
  }
  return {};
}

confine::LimitContext EngineLimits(const Policy& policy, const ContainerSurroundings& surroundings) {
  confine::LimitContext context;
  context.private_workspace = policy.workdir.empty();
  context.open_files_maximum = surroundings.open_files_maximum;
  context.has_cpu = context.has_memory = context.has_pids = true;
  // The engine knows no limit of processor time: init holds it.
  context.has_cpuacct = false;
  return context;
}

}  // namespace

Result<ContainerPlan> PlanContainer(const Policy& policy, const ContainerSurroundings& surroundings, LimitsFor what) {
  TRY_VOID(CheckPolicy(policy));
  ContainerPlan plan;
  const confine::LimitContext context = EngineLimits(policy, surroundings);
  if (what == LimitsFor::kSession) {
    TRY(plan.limits, confine::PlanSessionLimits(policy, context));
  } else {
    TRY(plan.limits, confine::PlanLimits(policy, context));
  }
  docker::ContainerSpec& spec = plan.spec;
  spec.image = policy.container.image.empty() ? kDefaultImage : policy.container.image;
  spec.entrypoint = {std::string(kProgramsInside) + "/cella-agent"};
  spec.labels = {{kOwnerLabel, surroundings.owner}};
  spec.working_dir = kWorkspaceInside;
  spec.network = ToString(policy.network);
  spec.user = fmt::format("{}:{}", surroundings.uid, surroundings.gid);
  spec.runtime = policy.container.runtime;
  spec.read_only_root = policy.container.read_only;
  spec.memory = policy.limits.memory.value;
  spec.cpus = policy.limits.cpus.value_or(0);
  const uint64_t pids = policy.limits.pids.value;
  const uint64_t own = plan.limits.cgroup.pids.value_or(pids) - pids + kOwnProcesses;
  spec.pids = pids + std::min(own, kMostOwnProcesses);
  const uint64_t disk = policy.limits.disk.value;
  spec.shm_bytes = std::min(disk, kMostShared);
  spec.open_files = surroundings.open_files_maximum;
  spec.processes = surroundings.processes_maximum;
  spec.binds.push_back({surroundings.programs, kProgramsInside, true});
  if (policy.workdir.empty()) {
    spec.tmpfs.push_back(Scratch(kWorkspaceInside, disk, surroundings));
  } else {
    const std::string& bound = policy.container.bind_dir;
    spec.binds.push_back({bound.empty() ? policy.workdir : bound, kWorkspaceInside, false});
  }
  spec.tmpfs.push_back(Scratch("/tmp", disk, surroundings));
  for (const Mount& mount : policy.mounts) {
    spec.binds.push_back({mount.source, mount.target, mount.mode == MountMode::kReadOnly});
  }
  return plan;
}

Status AdaptToEngine(const Policy& policy, const std::vector<docker::Missing>& missing, ContainerPlan* plan) {
  for (const docker::Missing& one : missing) {
    confine::LimitPlan& limits = plan->limits;
    if (one.name == "memory") {
      limits.exec.data_bytes = limits.watch.memory_bytes = policy.limits.memory.value;
      limits.enforced["memory"].by = "rlimit+watchdog";
    } else if (one.name == "pids") {
      limits.watch.processes = policy.limits.pids.value;
      limits.enforced["pids"].by = "watchdog";
    } else if (one.name == "cpus" && policy.best_effort) {
      limits.enforced["cpus"].by = "none";
      limits.unenforced.emplace_back("cpus");
    } else {
      return Err(ErrorCode::kUnsupported,
                 "the container engine did not take '{}' (it reports {}): use an engine that enforces it{}", one.name,
                 one.found, one.name == "cpus" ? ", or pass --best-effort" : "");
    }
  }
  return {};
}

Isolation DescribeContainer(const Policy& policy, const ContainerPlan& plan, const agent::Ready& ready) {
  Isolation isolation;
  isolation.executor = "container";
  isolation.namespaces = {"mount", "pid", "net", "ipc", "uts"};
  isolation.seccomp = ready.seccomp_mode == 2;
  isolation.cgroup = ready.has_cgroup_v2 != 0 ? "v2" : ready.has_memory_cgroup != 0 ? "v1" : "none";
  isolation.network = std::string(ToString(policy.network));
  isolation.proc = "own";
  isolation.limits = plan.limits.enforced;
  isolation.unenforced = plan.limits.unenforced;
  isolation.details = {{"image", plan.spec.image},
                       {"user", plan.spec.user},
                       {"root", plan.spec.read_only_root ? "read-only" : "writable"}};
  if (!plan.spec.runtime.empty()) isolation.details["runtime"] = plan.spec.runtime;
  return isolation;
}

}  // namespace cella::executor
