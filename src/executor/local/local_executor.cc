#include "executor/local/local_executor.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>

#include "executor/limits.h"
#include "executor/local/local_session.h"
#include "executor/local/scratch.h"
#include "executor/plan_run.h"
#include "executor/workspace.h"

namespace cella::executor {

LocalExecutor::LocalExecutor(LaunchContext context, LocalHost local)
    : context_(std::move(context)), local_(std::move(local)) {
  LocalScratch::Sweep(local_.tmpdir);
}

Environment LocalExecutor::BaseEnvironment(const RunRequest& request, const language::Plan& plan) const {
  Environment environment;
  if (request.policy.inherit_env) {
    for (const auto& [name, value] : local_.whole) environment.Set(name, value);
  } else {
    if (!context_.host.home.empty()) environment.Set("HOME", context_.host.home);
    if (!local_.user.empty()) {
      environment.Set("USER", local_.user);
      environment.Set("LOGNAME", local_.user);
    }
    environment.Set("LANG", local_.lang.empty() ? "C.UTF-8" : local_.lang);
    environment.Set("TMPDIR", local_.tmpdir);
  }
  environment.Set("PATH", context_.host.path);
  const auto& python = plan.python;
  if (python && !python->virtual_env.empty()) environment.Set("VIRTUAL_ENV", python->virtual_env);
  return environment;
}

async::Task<Result<Outcome>> LocalExecutor::Run(RunRequest request, EventSink& sink, async::Event& cancel) {
  const Policy policy = request.policy;
  if (!policy.rootfs.empty() || !policy.mounts.empty()) {
    co_return Err(ErrorCode::kInvalid, "the local executor has no mounts and no rootfs; use --executor sandbox");
  }
  CO_TRY_VOID(CheckWorkdir(policy.workdir));
  CO_TRY(LimitPlan limits,
         PlanLimits(policy, ObserveMachine(context_.cgroups, Confinement::kNone, policy.workdir.empty())));

  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  const std::string programs = scratch.path() + "/scratch";
  const std::string workspace = scratch.path() + "/workspace";
  if (mkdir(programs.c_str(), 0700) < 0 || mkdir(workspace.c_str(), 0700) < 0) {
    co_return SysErr(errno, "create '{}'", workspace);
  }
  CO_TRY(language::Plan plan, MakePlan(context_.table, context_.host, request, programs));
  const std::string& workdir = policy.workdir.empty() ? workspace : policy.workdir;
  std::array<char, PATH_MAX> real;
  if (realpath(workdir.c_str(), real.data()) == nullptr) co_return SysErr(errno, "workdir '{}'", workdir);
  UniqueFd directory(open(real.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) co_return SysErr(errno, "workdir '{}'", workdir);

  JailSpecBuilder builder;
  builder.spec().flags = jail::kUnconfined;
  builder.spec().watch = limits.watch;
  os::Cgroup cgroup;  // removed after the launch
  CO_TRY(cgroup, context_.MakeCgroup(limits.cgroup));
  CO_TRY(Launch launch, context_.TakeLaunch());
  CO_TRY_VOID(launch.Build(builder, cgroup));
  auto ready = co_await launch.WaitReady(Confinement::kNone);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup.CloseDoors();

  Isolation isolation;
  isolation.executor = "local";
  isolation.cgroup = os::Name(context_.cgroups.version());
  isolation.limits = limits.enforced;
  isolation.unenforced = limits.unenforced;
  PlanRun run{.plan = plan,
              .limits = limits,
              .launch = launch,
              .cgroup = cgroup,
              .workspace = os::Directory(std::move(directory), std::nullopt),
              .private_workspace = policy.workdir.empty(),
              .environment = BaseEnvironment(request, plan),
              .cwd = real.data(),
              .isolation = std::move(isolation)};
  auto outcome = co_await RunPlan(context_.loop, std::move(run), std::move(request), sink, cancel);
  co_return outcome;
}

async::Task<Result<std::unique_ptr<SessionGuest>>> LocalExecutor::Open(SessionRequest request) {
  CO_TRY_VOID(CheckWorkdir(request.policy.workdir));
  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  co_return std::make_unique<LocalSession>(*this, context_.loop, std::move(scratch), std::move(request));
}

}  // namespace cella::executor
