// An empty jail that waits for its guests: namespaces, mounts, init, resource group. Made by a maker, or (where there
// can be none) by a launcher of its own. Never used twice.
#pragma once

#include <vector>

#include "async/task.h"
#include "executor/launch.h"
#include "executor/limits.h"
#include "executor/sandbox/session_plan.h"
#include "os/cgroup.h"

namespace cella::executor {

struct Shell {
  // In this order: the group is removed after everything in it is gone.
  os::Cgroup cgroup;
  Launch launch;
  Launch::Ready ready;
  std::vector<UniqueFd> doors;  // of the group: a process joins by writing "0" into each

  std::vector<int> DoorFds() const;
  // Kills everything inside and waits for it.
  async::Task<void> End();
};

// What differs between the jails of one plan.
struct ShellLimits {
  LimitPlan limits;
  uint64_t disk = 0;

  jail::ShellSpec Spec() const;
};

// `maker` is one that was built from the plan's tree.
async::Task<Result<std::unique_ptr<Shell>>> MakeShell(const LaunchContext& context, Launch& maker,
                                                      const ShellLimits& limits);
// Without a maker.
async::Task<Result<std::unique_ptr<Shell>>> BuildShell(LaunchContext& context, const SessionPlan& plan,
                                                       const ShellLimits& limits);

}  // namespace cella::executor
