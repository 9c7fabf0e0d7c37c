// An empty jail that waits for its guests: namespaces, mounts, init, resource group. Made by a maker, or (where there
// can be none) by a launcher of its own. Never used twice.
#pragma once

#include <vector>

#include "async/task.h"
#include "confine/identity.h"
#include "confine/jail.h"
#include "confine/launch_context.h"
#include "confine/limits.h"
#include "confine/maker.h"
#include "confine/spec_builder.h"
#include "os/cgroup.h"

namespace cella::confine {

struct EmptyJail {
  // In this order: the group is removed after everything in it is gone.
  os::Cgroup cgroup;
  Jail jail;
  // ready.entry and the join_fds of the group are open until the first guest has moved in: a dozen descriptors that few
  // sessions need again, and init lends them anew.
  Jail::Ready ready;

  void CloseEntry();
  // Kills everything inside and waits for it.
  async::Task<void> End();
};

// By which a process joins the group: it writes "0" into each. The kernel checks the credentials of the opener, so
// that a guest-to-be needs no rights. Borrowed from the group, but for that of version 2.
struct JoinFds {
  std::vector<int> fds;
  UniqueFd v2;
};
// Fails for a group whose join_fds are closed: no process may start outside of it.
Result<JoinFds> JoinFdsOf(const os::Cgroup& cgroup);

// What differs between the jails of one plan.
struct EmptyJailLimits {
  LimitPlan limits;
  uint64_t disk = 0;

  jail::EmptyJailSpec Spec() const;
};

// `maker` is one that was built from the plan's tree; the policy says which directories of the host its jail has.
async::Task<Result<std::unique_ptr<EmptyJail>>> MakeEmptyJail(LaunchContext& context, const BuildIdentity& identity,
                                                              Maker& maker, const EmptyJailLimits& limits,
                                                              const Policy& policy);
// Without a maker.
async::Task<Result<std::unique_ptr<EmptyJail>>> BuildEmptyJail(LaunchContext& context, const JailSpecBuilder& tree,
                                                               const EmptyJailLimits& limits, const Policy& policy);

}  // namespace cella::confine
