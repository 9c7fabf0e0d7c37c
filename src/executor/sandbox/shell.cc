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

// The directories of the host that one jail has for itself, as detached mounts. A launcher of its own opens them, since
// a maker has no view of the host.
struct Sources {
  Launch launcher;
  std::vector<UniqueFd> mounts;
};

async::Task<Result<Sources>> OpenSources(LaunchContext& context, const SessionPlan& plan, const Policy& policy) {
  CO_TRY(Launch launcher, context.TakeLaunch());
  JailSpecBuilder builder;
  jail::JailSpec& spec = builder.spec();
  plan.identity.Describe(&spec);
  spec.flags |= jail::kOpenSources;
  CO_TRY_VOID(AddPolicyMounts(policy, &builder));
  CO_TRY_VOID(launcher.Build(builder, os::Cgroup()));
  auto mounts = co_await launcher.WaitSources();
  if (!mounts) co_return std::unexpected(std::move(mounts.error()));
  co_return Sources{std::move(launcher), std::move(*mounts)};
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
  std::optional<Sources> sources;
  if (!policy.workdir.empty() || !policy.mounts.empty()) {
    auto opened = co_await OpenSources(context, plan, policy);
    if (!opened) co_return std::unexpected(std::move(opened.error()));
    sources.emplace(std::move(*opened));
  }
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  CO_TRY(CgroupDoors doors, DoorsOf(cgroup));
  jail::ShellSpec spec = limits.Spec();
  spec.has_workspace = policy.workdir.empty() ? 0 : 1;
  std::vector<UniqueFd> none;
  CO_TRY(Launch launch, maker.MakeShell(spec, doors.fds, sources ? sources->mounts : none));
  auto shell = co_await Finish(std::move(cgroup), std::move(launch));
  // By now it has left.
  if (sources) co_await sources->launcher.End();
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
