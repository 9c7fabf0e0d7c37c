#include "confine/empty_jail.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>

#include "confine/root_tree.h"

namespace cella::confine {
namespace {

async::Task<Result<std::unique_ptr<EmptyJail>>> Finish(os::Cgroup cgroup, Jail built) {
  auto jail = std::make_unique<EmptyJail>(std::move(cgroup), std::move(built), Jail::Ready{});
  auto ready = co_await jail->jail.WaitReady();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  jail->ready = std::move(*ready);
  co_return std::move(jail);
}

// Opens the directories of the host that one jail has for itself, as detached mounts: a maker has no view of the host.
Result<SourceOpener> StartOpening(LaunchContext& context, const BuildIdentity& identity, const Policy& policy) {
  TRY(Launcher launcher, context.TakeLauncher());
  JailSpecBuilder builder;
  identity.Describe(&builder.spec());
  TRY_VOID(AddPolicyMounts(policy, &builder));
  return std::move(launcher).OpenSources(builder);
}

}  // namespace

Result<JoinFds> JoinFdsOf(const os::Cgroup& cgroup) {
  JoinFds join_fds;
  for (const UniqueFd& tasks : cgroup.v1_tasks()) join_fds.fds.push_back(tasks.get());
  if (cgroup.v2_dir() >= 0) {
    join_fds.v2.Reset(openat(cgroup.v2_dir(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (!join_fds.v2) return SysErr(errno, "open a cgroup");
    join_fds.fds.push_back(join_fds.v2.get());
  }
  if (cgroup && join_fds.fds.empty()) return Err(ErrorCode::kInternal, "the join_fds of the cgroup are closed");
  return join_fds;
}

void EmptyJail::CloseEntry() {
  ready.entry.clear();
  cgroup.CloseJoinFds();
}

async::Task<void> EmptyJail::End() { return jail.End(); }

jail::EmptyJailSpec EmptyJailLimits::Spec() const {
  jail::EmptyJailSpec spec = {};
  spec.scratch_bytes = disk;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, disk / 16384);
  spec.watch_memory_bytes = limits.watch.memory_bytes;
  spec.watch_cpu_ns = limits.watch.cpu_ns;
  spec.watch_processes = limits.watch.processes;
  return spec;
}

async::Task<Result<std::unique_ptr<EmptyJail>>> MakeEmptyJail(LaunchContext& context, const BuildIdentity& identity,
                                                              Maker& maker, const EmptyJailLimits& limits,
                                                              const Policy& policy) {
  std::optional<SourceOpener> opener;
  if (!policy.workdir.empty() || !policy.mounts.empty()) {
    CO_TRY(SourceOpener started, StartOpening(context, identity, policy));
    opener.emplace(std::move(started));
  }
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  CO_TRY(JoinFds join_fds, JoinFdsOf(cgroup));
  std::vector<UniqueFd> mounts;
  if (opener) {
    auto opened = co_await opener->Wait();
    if (!opened) co_return std::unexpected(std::move(opened.error()));
    mounts = std::move(*opened);
  }
  jail::EmptyJailSpec spec = limits.Spec();
  spec.has_workspace = policy.workdir.empty() ? 0 : 1;
  CO_TRY(Jail made, maker.MakeEmptyJail(spec, join_fds.fds, mounts));
  mounts.clear();
  auto jail = co_await Finish(std::move(cgroup), std::move(made));
  if (opener) co_await opener->End();  // it has left meanwhile
  co_return jail;
}

async::Task<Result<std::unique_ptr<EmptyJail>>> BuildEmptyJail(LaunchContext& context, const JailSpecBuilder& tree,
                                                               const EmptyJailLimits& limits, const Policy& policy) {
  CO_TRY(Launcher launcher, context.TakeLauncher());
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.limits.cgroup));
  JailSpecBuilder builder = tree;
  CO_TRY_VOID(AddPolicyMounts(policy, &builder));
  const jail::EmptyJailSpec jail_spec = limits.Spec();
  builder.spec().scratch_bytes = jail_spec.scratch_bytes;
  builder.spec().scratch_inodes = jail_spec.scratch_inodes;
  builder.spec().watch = limits.limits.watch;
  CO_TRY(Jail built, std::move(launcher).BuildJail(builder, cgroup));
  auto jail = co_await Finish(std::move(cgroup), std::move(built));
  co_return jail;
}

}  // namespace cella::confine
