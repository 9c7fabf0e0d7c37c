#include "executor/sandbox/sandbox_executor.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "executor/environment.h"
#include "executor/limits.h"
#include "executor/plan_run.h"
#include "executor/sandbox/guest_environment.h"
#include "executor/sandbox/identity.h"
#include "executor/sandbox/isolation.h"
#include "executor/sandbox/root_tree.h"
#include "executor/sandbox/sandbox_session.h"
#include "executor/workspace.h"

namespace cella::executor {
namespace {

constexpr size_t kMaxIdleEnvironments = 16;

}  // namespace

SandboxExecutor::SandboxExecutor(LaunchContext context, PoolLimits pool)
    : context_(std::move(context)),
      planning_(context_.loop, 1),
      starting_(context_.loop, std::max(1u, std::thread::hardware_concurrency())),
      pool_(context_, starting_, pool) {
  context_.starting = &starting_;
}

async::Task<Result<Outcome>> SandboxExecutor::Run(RunRequest request, EventSink& sink, async::Event& cancel) {
  const Policy policy = request.policy;
  // Declared before the launch: the group is removed after everything in it is gone.
  os::Cgroup cgroup;
  CO_TRY(Launch launch, context_.TakeLaunch());
  CO_TRY(language::Plan plan, MakePlan(context_.table, context_.HostFor(policy), request, "/tmp"));
  CO_TRY_VOID(CheckWorkdir(policy.workdir));
  CO_TRY(BuildIdentity identity, ChooseIdentity(static_cast<uint32_t>(getpid())));
  const bool private_workspace = policy.workdir.empty();
  CO_TRY(LimitPlan limits, PlanLimits(policy, ObserveMachine(context_.cgroups, Confinement::kJail, private_workspace)));

  JailSpecBuilder builder;
  jail::JailSpec& spec = builder.spec();
  identity.Describe(&spec);
  if (policy.network == Network::kHost) spec.flags |= jail::kHostNetwork;
  if (limits.strict_memory) spec.flags |= jail::kStrictMemory;
  spec.scratch_bytes = policy.limits.disk.value;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, policy.limits.disk.value / 16384);
  spec.watch = limits.watch;
  builder.SetHostname("cella");
  CO_TRY_VOID(DescribeRootTree(plan, policy, &builder));
  CO_TRY_VOID(AddPolicyMounts(policy, &builder));

  CO_TRY(cgroup, context_.MakeCgroup(limits.cgroup));
  CO_TRY_VOID(launch.Build(builder, cgroup));
  auto ready = co_await launch.WaitReady(Confinement::kJail);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup.CloseDoors();
  CO_TRY_VOID(CheckWatch(policy, &limits, *ready));

  PlanRun run{.plan = plan,
              .limits = limits,
              .launch = launch,
              .cgroup = cgroup,
              .workspace = os::Directory(std::move(ready->workspace), WorkspaceOwner(identity)),
              .private_workspace = private_workspace,
              .environment = SandboxEnvironment(plan),
              .cwd = "/workspace",
              .isolation = DescribeSandbox(policy, limits, context_.cgroups, *ready)};
  auto outcome = co_await RunPlan(context_.loop, std::move(run), std::move(request), sink, cancel);
  co_return outcome;
}

async::Task<Result<std::shared_ptr<WarmEnvironment>>> SandboxExecutor::WarmUp(const SessionRequest& request,
                                                                              bool strict_memory) {
  CO_TRY_VOID(CheckWorkdir(request.policy.workdir));
  // One at a time: whoever waits here finds what the one before has started.
  auto pass = co_await planning_.Enter();
  const std::vector<std::string> writable = GuestWritable(request.policy);
  // With directories of the host in its very tree it would be of use to nobody else.
  auto importable = [&](const SessionPlan& plan) {
    return ImportableMounts(request.policy, !request.preload.empty(), plan.module_paths);
  };
  auto is_shareable = [&](const SessionPlan& plan) { return !plan.Touches(writable) && importable(plan).empty(); };
  const std::vector<MountPoint> points = MountPointsOf(request.policy);
  const std::string key = PlanKey(context_, request, points);
  auto found = environments_.find(key);
  if (found != environments_.end()) {
    const std::shared_ptr<WarmEnvironment>& warm = found->second.environment;
    if (!warm->alive() || warm->plan().Stale()) {
      environments_.erase(found);
    } else if (is_shareable(warm->plan())) {
      found->second.used = ++asked_;
      co_return warm;
    }
  }
  CO_TRY(SessionPlan plan, PlanSession(context_, request, strict_memory, ++plans_));
  const bool shareable = is_shareable(plan) && !environments_.contains(key);
  auto mounts = importable(plan);
  auto warm = co_await WarmEnvironment::Start(context_, std::move(plan), points, std::move(mounts), request.preload);
  if (warm && shareable) {
    MakeRoom();
    environments_[key] = {*warm, ++asked_};
  }
  co_return warm;
}

// Of those that nobody uses, the ones that were asked for longest ago go.
void SandboxExecutor::MakeRoom() {
  while (environments_.size() >= kMaxIdleEnvironments) {
    auto oldest = environments_.end();
    for (auto entry = environments_.begin(); entry != environments_.end(); ++entry) {
      if (entry->second.environment.use_count() > 1) continue;
      if (oldest == environments_.end() || entry->second.used < oldest->second.used) oldest = entry;
    }
    if (oldest == environments_.end()) return;
    environments_.erase(oldest);
  }
}

async::Task<Result<std::unique_ptr<SessionGuest>>> SandboxExecutor::Open(SessionRequest request) {
  const Policy& policy = request.policy;
  const bool private_workspace = policy.workdir.empty();
  CO_TRY(LimitPlan limits,
         PlanSessionLimits(policy, ObserveMachine(context_.cgroups, Confinement::kJail, private_workspace)));
  auto warm = co_await WarmUp(request, limits.strict_memory);
  if (!warm) co_return std::unexpected(std::move(warm.error()));
  const bool interchangeable = policy.workdir.empty() && policy.mounts.empty();
  std::unique_ptr<Shell> shell;
  if (interchangeable) {
    const std::string key = pool_.Key(request);
    SessionPool::Recipe recipe{*warm, limits, request};
    std::unique_ptr<SessionGuest> parked = pool_.TakeParked(key, recipe);
    if (parked) co_return std::move(parked);
    shell = pool_.TakeShell(key, warm->get());
  }
  // More at once would only make each of them slower.
  auto pass = co_await starting_.Enter();
  if (!shell) {
    ShellLimits shell_limits{limits, policy.limits.disk.value};
    auto made = co_await (*warm)->TakeShell(shell_limits, policy);
    if (!made) co_return std::unexpected(std::move(made.error()));
    shell = std::move(*made);
  }
  auto session =
      co_await SandboxSession::Open(context_, *warm, std::move(shell), std::move(limits), std::move(request));
  if (!session) co_return std::unexpected(std::move(session.error()));
  co_return std::unique_ptr<SessionGuest>(std::move(*session));
}

async::Task<Status> SandboxExecutor::Prepare(const SessionRequest& request) {
  const bool private_workspace = request.policy.workdir.empty();
  CO_TRY(LimitPlan limits,
         PlanSessionLimits(request.policy, ObserveMachine(context_.cgroups, Confinement::kJail, private_workspace)));
  auto warm = co_await WarmUp(request, limits.strict_memory);
  if (!warm) co_return std::unexpected(std::move(warm.error()));
  if (!(*warm)->forks()) co_return Status{};
  auto zygote = co_await (*warm)->WarmUp();
  if (!zygote) co_return std::unexpected(std::move(zygote.error()));
  co_return Status{};
}

Readiness SandboxExecutor::readiness() const {
  Readiness readiness = pool_.readiness();
  for (const auto& [key, kept] : environments_) readiness.zygotes += kept.environment->is_warm() ? 1 : 0;
  return readiness;
}

async::Task<void> SandboxExecutor::Close() { return pool_.Close(); }

}  // namespace cella::executor
