#include "executor/sandbox/shell.h"

#include <fcntl.h>

#include <algorithm>

namespace cella::executor {
namespace {

// The kernel judges a write by whoever opened the file, so that a guest-to-be joins without any rights.
Result<std::vector<UniqueFd>> OpenDoors(const os::Cgroup& cgroup) {
  std::vector<UniqueFd> doors;
  for (const UniqueFd& tasks : cgroup.v1_tasks()) doors.emplace_back(fcntl(tasks.get(), F_DUPFD_CLOEXEC, 3));
  if (cgroup.v2_dir() >= 0) doors.emplace_back(openat(cgroup.v2_dir(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  for (const UniqueFd& door : doors) {
    if (!door) return SysErr(errno, "open a cgroup");
  }
  return doors;
}

async::Task<Result<std::unique_ptr<Shell>>> Finish(os::Cgroup cgroup, Launch launch, std::vector<UniqueFd> doors) {
  auto shell = std::make_unique<Shell>(std::move(cgroup), std::move(launch), Launch::Ready{}, std::move(doors));
  auto ready = co_await shell->launch.WaitReady(Confinement::kJail);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  shell->ready = std::move(*ready);
  shell->cgroup.CloseDoors();
  co_return std::move(shell);
}

}  // namespace

std::vector<int> Shell::DoorFds() const {
  std::vector<int> fds;
  for (const UniqueFd& door : doors) fds.push_back(door.get());
  return fds;
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

async::Task<Result<std::unique_ptr<Shell>>> MakeShell(const LaunchContext& context, Launch& maker,
                                                      const ShellLimits& limits) {
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  CO_TRY(std::vector<UniqueFd> doors, OpenDoors(cgroup));
  std::vector<int> fds;
  for (const UniqueFd& door : doors) fds.push_back(door.get());
  CO_TRY(Launch launch, maker.MakeShell(limits.Spec(), fds));
  auto shell = co_await Finish(std::move(cgroup), std::move(launch), std::move(doors));
  co_return shell;
}

async::Task<Result<std::unique_ptr<Shell>>> BuildShell(LaunchContext& context, const SessionPlan& plan,
                                                       const ShellLimits& limits) {
  CO_TRY(Launch launch, context.TakeLaunch());
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  CO_TRY(std::vector<UniqueFd> doors, OpenDoors(cgroup));
  JailSpecBuilder builder = plan.tree;
  const jail::ShellSpec shell_spec = limits.Spec();
  builder.spec().scratch_bytes = shell_spec.scratch_bytes;
  builder.spec().scratch_inodes = shell_spec.scratch_inodes;
  builder.spec().watch = limits.limits.watch;
  CO_TRY_VOID(launch.Build(builder, cgroup));
  auto shell = co_await Finish(std::move(cgroup), std::move(launch), std::move(doors));
  co_return shell;
}

}  // namespace cella::executor
