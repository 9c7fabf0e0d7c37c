// What a jail that is ready truly enforces, and who owns its files.
#pragma once

#include <optional>

#include "cella/outcome.h"
#include "cella/policy.h"
#include "confine/identity.h"
#include "confine/jail.h"
#include "confine/limits.h"
#include "os/cgroup.h"
#include "os/directory.h"

namespace cella::confine {

Isolation DescribeSandbox(const Policy& policy, const LimitPlan& limits, const os::CgroupHost& cgroups,
                          const Jail::Ready& ready);

// Where init has no /proc, what depends on its watch has no mechanism left.
Status CheckWatch(const Policy& policy, LimitPlan* limits, const Jail::Ready& ready);

// Nothing: the caller.
std::optional<os::FsIdentity> WorkspaceOwner(const BuildIdentity& identity);

}  // namespace cella::confine
