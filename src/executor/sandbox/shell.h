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
  // ready.entry and the doors of the group are open until the first guest has moved in: a dozen descriptors that few
  // sessions need again, and init lends them anew.
  Launch::Ready ready;

  void CloseEntry();
  // Kills everything inside and waits for it.
  async::Task<void> End();
};

// By which a process joins the group: it writes "0" into each. The kernel judges that by whoever opened the file, so
// that a guest-to-be needs no rights. Borrowed from the group, but for that of version 2.
struct CgroupDoors {
  std::vector<int> fds;
  UniqueFd v2;
};
// Fails for a group whose doors are closed: nobody may be born outside of it.
Result<CgroupDoors> DoorsOf(const os::Cgroup& cgroup);

// What differs between the jails of one plan.
struct ShellLimits {
  LimitPlan limits;
  uint64_t disk = 0;

  jail::ShellSpec Spec() const;
};

// `maker` is one that was built from the plan's tree; the policy says which directories of the host its jail has.
async::Task<Result<std::unique_ptr<Shell>>> MakeShell(LaunchContext& context, const SessionPlan& plan, Launch& maker,
                                                      const ShellLimits& limits, const Policy& policy);
// Without a maker.
async::Task<Result<std::unique_ptr<Shell>>> BuildShell(LaunchContext& context, const SessionPlan& plan,
                                                       const ShellLimits& limits, const Policy& policy);

}  // namespace cella::executor
