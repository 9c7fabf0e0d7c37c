#include "executor/sandbox/shell.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>

#include "executor/sandbox/root_tree.h"

namespace cella::executor {
namespace {

async::Task<Result<std::unique_ptr<Shell>>> Finish(os::Cgroup cgroup, Launch launch) {
  auto shell = std::make_unique<Shell>(std::move(cgroup), std::move(launch), Launch::Ready{});
  auto ready = co_await shell->launch.WaitReady(Confinement::kJail);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  shell->ready = std::move(*ready);
  co_return std::move(shell);
}

// Opens the directories of the host that one jail has for itself, as detached mounts: a maker has no view of the host.
Result<Launch> StartOpening(LaunchContext& context, const SessionPlan& plan, const Policy& policy) {
  TRY(Launch opener, context.TakeLaunch());
  JailSpecBuilder builder;
  plan.identity.Describe(&builder.spec());
  builder.spec().flags |= jail::kOpenSources;
  TRY_VOID(AddPolicyMounts(policy, &builder));
  TRY_VOID(opener.Build(builder, os::Cgroup()));
  return opener;
}

}  // namespace

Result<CgroupDoors> DoorsOf(const os::Cgroup& cgroup) {
  CgroupDoors doors;
  for (const UniqueFd& tasks : cgroup.v1_tasks()) doors.fds.push_back(tasks.get());
  if (cgroup.v2_dir() >= 0) {
    doors.v2.Reset(openat(cgroup.v2_dir(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (!doors.v2) return SysErr(errno, "open a cgroup");
    doors.fds.push_back(doors.v2.get());
  }
  if (cgroup && doors.fds.empty()) return Err(ErrorCode::kInternal, "the doors of the cgroup are closed");
  return doors;
}

void Shell::CloseEntry() {
  ready.entry.clear();
  cgroup.CloseDoors();
}

async::Task<void> Shell::End() { return launch.End(); }

jail::ShellSpec ShellLimits::Spec() const {
  jail::ShellSpec spec = {};
  spec.scratch_bytes = disk;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, disk / 16384);
  spec.watch_memory_bytes = limits.watch.memory_bytes;
  spec.watch_cpu_ns = limits.watch.cpu_ns;
  spec.watch_processes = limits.watch.processes;
  return spec;
}

async::Task<Result<std::unique_ptr<Shell>>> MakeShell(LaunchContext& context, const SessionPlan& plan, Launch& maker,
                                                      const ShellLimits& limits, const Policy& policy) {
  std::optional<Launch> opener;
  if (!policy.workdir.empty() || !policy.mounts.empty()) {
    CO_TRY(Launch started, StartOpening(context, plan, policy));
    opener.emplace(std::move(started));
  }
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  CO_TRY(CgroupDoors doors, DoorsOf(cgroup));
  std::vector<UniqueFd> mounts;
  if (opener) {
    auto opened = co_await opener->WaitSources();
    if (!opened) co_return std::unexpected(std::move(opened.error()));
    mounts = std::move(*opened);
  }
  jail::ShellSpec spec = limits.Spec();
  spec.has_workspace = policy.workdir.empty() ? 0 : 1;
  CO_TRY(Launch launch, maker.MakeShell(spec, doors.fds, mounts));
  mounts.clear();
  auto shell = co_await Finish(std::move(cgroup), std::move(launch));
  if (opener) co_await opener->End();  // it has left meanwhile
  co_return shell;
}

async::Task<Result<std::unique_ptr<Shell>>> BuildShell(LaunchContext& context, const SessionPlan& plan,
                                                       const ShellLimits& limits, const Policy& policy) {
  CO_TRY(Launch launch, context.TakeLaunch());
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  JailSpecBuilder builder = plan.tree;
  CO_TRY_VOID(AddPolicyMounts(policy, &builder));
  const jail::ShellSpec shell_spec = limits.Spec();
  builder.spec().scratch_bytes = shell_spec.scratch_bytes;
  builder.spec().scratch_inodes = shell_spec.scratch_inodes;
  builder.spec().watch = limits.limits.watch;
  CO_TRY_VOID(launch.Build(builder, cgroup));
  auto shell = co_await Finish(std::move(cgroup), std::move(launch));
  co_return shell;
}

}  // namespace cella::executor
