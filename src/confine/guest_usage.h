// What a guest uses now: its cgroup where that counts, else its processes. On the loop; /proc is read on a pool.
#pragma once

#include <vector>

#include "confine/jail.h"
#include "confine/launch_context.h"
#include "os/cgroup.h"
#include "run/executor.h"

namespace cella::confine {

// Of the processes in the place of `jail` (null: it has none yet). `interpreters` are pidfds of interpreters that no
// process of the place has started. What is referred to need not outlive the call's first step.
async::Task<run::GuestUsage> MeasureGuest(LaunchContext& context, const Jail* jail, const os::Cgroup& cgroup,
                                          std::vector<int> interpreters);

}  // namespace cella::confine
