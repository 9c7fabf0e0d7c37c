#include "executor/sandbox/sandbox_executor.h"

#include <unistd.h>

#include "executor/environment.h"
#include "executor/limits.h"
#include "executor/plan_run.h"
#include "executor/sandbox/identity.h"
#include "executor/sandbox/root_tree.h"
#include "executor/workspace.h"

namespace cella::executor {
namespace {

Environment BaseEnvironment(const language::Plan& plan) {
  Environment environment;
  environment.Set("PATH", kGuestPath);
  environment.Set("HOME", "/tmp");
  environment.Set("USER", "user");
  environment.Set("LOGNAME", "user");
  environment.Set("LANG", "C.UTF-8");
  environment.Set("TMPDIR", "/tmp");
  if (plan.python && !plan.python->virtual_env.empty()) environment.Set("VIRTUAL_ENV", plan.python->virtual_env);
  return environment;
}

Isolation DescribeIsolation(const Policy& policy, const LimitPlan& limits, const os::CgroupHost& cgroups,
                            const Launch::Ready& ready) {
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

// Where init has no /proc, what depends on its watch has no mechanism left.
Status CheckWatch(const Policy& policy, LimitPlan* limits, const Launch::Ready& ready) {
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

}  // namespace

async::Task<Result<Outcome>> SandboxExecutor::Run(RunRequest request, EventSink& sink, async::Event& cancel) {
  const Policy policy = request.policy;
  // Declared before the launch: the group is removed after everything in it is gone.
  os::Cgroup cgroup;
  CO_TRY(Launch launch, context_.TakeLaunch());
  language::HostEnv host = context_.host;
  host.guest_writable = GuestWritable(policy);  // nothing from there is run on the host
  CO_TRY(language::Plan plan, MakePlan(context_.table, host, request, "/tmp"));
  CO_TRY_VOID(CheckWorkdir(policy.workdir));
  CO_TRY(BuildIdentity identity, ChooseIdentity(static_cast<uint32_t>(getpid())));
  const bool private_workspace = policy.workdir.empty();
  CO_TRY(LimitPlan limits, PlanLimits(policy, ObserveMachine(context_.cgroups, Confinement::kJail, private_workspace)));

  JailSpecBuilder builder;
  jail::JailSpec& spec = builder.spec();
  if (identity.mode == BuildMode::kPrivileged) spec.flags |= jail::kPrivileged;
  if (identity.mode == BuildMode::kDropFirst) spec.flags |= jail::kDropToUid;
  if (policy.network == Network::kHost) spec.flags |= jail::kHostNetwork;
  if (limits.strict_memory) spec.flags |= jail::kStrictMemory;
  spec.host_uid = identity.host_uid;
  spec.host_gid = identity.host_gid;
  spec.scratch_bytes = policy.limits.disk.value;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, policy.limits.disk.value / 16384);
  spec.watch = limits.watch;
  builder.SetHostname("cella");
  CO_TRY_VOID(DescribeRootTree(plan, policy, &builder));

  CO_TRY(cgroup, context_.MakeCgroup(limits.cgroup));
  CO_TRY_VOID(launch.Build(builder, cgroup));
  auto ready = co_await launch.WaitReady(Confinement::kJail);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup.CloseDoors();
  CO_TRY_VOID(CheckWatch(policy, &limits, *ready));

  std::optional<os::FsIdentity> owner;
  if (identity.mode != BuildMode::kOrdinary) owner = os::FsIdentity{identity.host_uid, identity.host_gid};
  PlanRun run{.plan = plan,
              .limits = limits,
              .launch = launch,
              .cgroup = cgroup,
              .workspace = os::Directory(std::move(ready->workspace), owner),
              .private_workspace = private_workspace,
              .environment = BaseEnvironment(plan),
              .cwd = "/workspace",
              .isolation = DescribeIsolation(policy, limits, context_.cgroups, *ready)};
  auto outcome = co_await RunPlan(context_.loop, std::move(run), std::move(request), sink, cancel);
  co_return outcome;
}

}  // namespace cella::executor
