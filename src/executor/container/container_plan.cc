#include "executor/container/container_plan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <tuple>

#include "executor/container/container.h"
#include "executor/container/inside.h"

namespace cella::executor {
namespace {

// The agent and init, which the engine counts as well.
constexpr uint64_t kOwnProcesses = 2;
constexpr uint64_t kMostOwnProcesses = 10;
constexpr uint64_t kMostShared = uint64_t{64} << 20;
// What Podman itself lowers its limit of processes to, where its rights do not suffice for more.
constexpr uint64_t kPodmanProcesses = 32768;
constexpr const char* kDefaultImage = "python:3-slim";

// Podman takes neither an owner nor a number of files; the guest is the only user inside.
docker::TmpfsMount Scratch(const char* target, uint64_t bytes, const ContainerSurroundings& surroundings) {
  if (surroundings.podman) return {target, fmt::format("rw,exec,nosuid,nodev,size={},mode=1777", bytes)};
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  const uint64_t inodes = std::max<uint64_t>(1024, bytes / 16384);
  return {target, fmt::format("rw,exec,nosuid,nodev,size={},nr_inodes={},mode=0700,uid={},gid={}", bytes, inodes,
                              surroundings.uid, surroundings.gid)};
}

// "UID[:GID]" in decimal; the group is that of the user's number where it is not given.
std::optional<std::pair<uint32_t, uint32_t>> ParseUser(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view user = text.substr(0, colon);
  const std::string_view group = colon == text.npos ? user : text.substr(colon + 1);
  std::pair<uint32_t, uint32_t> ids;
  for (auto [part, id] : {std::pair(user, &ids.first), std::pair(group, &ids.second)}) {
    const char* end = part.data() + part.size();
    auto [at, error] = std::from_chars(part.data(), end, *id);
    if (error != std::errc() || at != end || *id == std::numeric_limits<uint32_t>::max()) return std::nullopt;
  }
  return ids;
}

// Whom the code runs as. Root of the machine only in a directory of root's, without rights but what cap_add names.
Status ChooseUser(const Policy& policy, ContainerSurroundings* surroundings) {
  const std::string& wanted = policy.container.user;
  if (!wanted.empty()) {
    const auto ids = ParseUser(wanted);
    if (!ids) return Err(ErrorCode::kInvalid, "user '{}': give numbers, as UID or UID:GID", wanted);
    const bool is_owner = surroundings->uid == 0;
    if ((ids->first == 0 || ids->second == 0) && !surroundings->rootless && !is_owner) {
      return Err(
          ErrorCode::kPermission,
          "user '{}': code never runs as root of this machine (only where root gives it a directory of root's to "
          "write to, or with a rootless engine); name another user",
          wanted);
    }
    std::tie(surroundings->uid, surroundings->gid) = *ids;
  }
  if (!policy.container.cap_add.empty() && surroundings->uid != 0) {
    return Err(ErrorCode::kUnsupported,
               "cap_add: the kernel gives added capabilities to user 0 alone, and the code runs as another one: use a "
               "rootless engine, or a directory of root's to write to");
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

Status CheckContainerPolicy(const Policy& policy) {
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
  if (policy.container.fresh == ContainerFresh::kRun && Stays(policy.container)) {
    return Err(ErrorCode::kInvalid,
               "fresh: each run has a container of its own, and none of them can stay: leave auto_remove and "
               "stop_container alone, or fresh");
  }
  if (!policy.venv.empty())
    return refuse("--venv", "the image's interpreter runs the code; use an image with the packages");
  if (policy.python.find('/') != policy.python.npos) {
    return refuse("--python with a path", "the image's interpreter runs the code; use --image");
  }
  return {};
}

bool Stays(const ContainerPolicy& policy) { return !policy.auto_remove || !policy.stop_container; }

Result<ContainerPlan> PlanContainer(const Policy& policy, ContainerSurroundings surroundings, LimitsFor what) {
  TRY_VOID(ChooseUser(policy, &surroundings));
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
  if (Stays(policy.container)) {
    spec.labels[kKeptLabel] = "1";
    spec.entrypoint.emplace_back("--keep");
  }
  spec.auto_remove = policy.container.auto_remove;
  for (const auto& [name, address] : policy.container.extra_hosts) spec.extra_hosts.push_back(name + ":" + address);
  if (!policy.container.device_requests.empty()) spec.device_requests = policy.container.device_requests;
  spec.cap_add = policy.container.cap_add;
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
  if (surroundings.podman) {
    spec.processes = std::min(spec.processes == 0 ? kPodmanProcesses : spec.processes, kPodmanProcesses);
    // Beside a read-only root Podman makes these writable, without a limit.
    for (const char* target : {"/run", "/var/tmp"}) {
      spec.tmpfs.push_back({target, "rw,noexec,nosuid,nodev,size=65536,mode=0755"});
    }
  }
  spec.binds.push_back({surroundings.programs, kProgramsInside, true});
  if (policy.workdir.empty()) {
    spec.tmpfs.push_back(Scratch(kWorkspaceInside, disk, surroundings));
  } else {
    const std::string& bound = policy.container.bind_dir;
    spec.binds.push_back({bound.empty() ? policy.workdir : bound, kWorkspaceInside, false});
  }
  spec.tmpfs.push_back(Scratch("/tmp", disk, surroundings));
  if (surroundings.packages) spec.tmpfs.push_back(Scratch(agent::kPackagesInside, disk, surroundings));
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

Isolation DescribeContainer(const Policy& policy, const ContainerPlan& plan, const agent::Ready& ready,
                            const std::string& name) {
  const docker::ContainerSpec& spec = plan.spec;
  Isolation isolation;
  isolation.executor = "container";
  isolation.namespaces = {"mount", "pid", "net", "ipc", "uts"};
  isolation.seccomp = ready.seccomp_mode == 2;
  isolation.cgroup = ready.has_cgroup_v2 != 0 ? "v2" : ready.has_memory_cgroup != 0 ? "v1" : "none";
  isolation.network = std::string(ToString(policy.network));
  isolation.proc = "own";
  isolation.limits = plan.limits.enforced;
  isolation.unenforced = plan.limits.unenforced;
  isolation.details = {{"image", spec.image},
                       {"user", spec.user},
                       {"container", name},
                       {"root", spec.read_only_root ? "read-only" : "writable"}};
  auto tell = [&](const char* what, std::string text) {
    if (!text.empty()) isolation.details[what] = std::move(text);
  };
  tell("runtime", spec.runtime);
  tell("extra_hosts", fmt::format("{}", fmt::join(spec.extra_hosts, ", ")));
  tell("device_requests", policy.container.device_requests);
  tell("cap_add", fmt::format("{}", fmt::join(spec.cap_add, ", ")));
  tell("init_command", policy.container.init_command);
  std::string names, mounts;
  for (const auto& [variable, value] : policy.env) names += (names.empty() ? "" : ", ") + variable;
  for (const Mount& mount : policy.mounts) {
    mounts += fmt::format("{}{}:{}", mounts.empty() ? "" : ", ", mount.target, ToString(mount.mode));
  }
  tell("env", std::move(names));
  tell("mounts", std::move(mounts));
  if (Stays(policy.container)) {
    const bool runs = !policy.container.stop_container;
    tell("kept", fmt::format("{}enter it with 'docker exec -it {} sh', remove it with 'docker rm -f {}'",
                             runs ? "" : fmt::format("start it with 'docker start {}', ", name), name, name));
  }
  return isolation;
}

}  // namespace cella::executor
