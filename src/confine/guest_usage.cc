#include "confine/guest_usage.h"

#include <algorithm>

#include "os/pidfd.h"
#include "os/process_usage.h"

namespace cella::confine {

async::Task<run::GuestUsage> MeasureGuest(LaunchContext& context, const Jail* jail, const os::Cgroup& cgroup,
                                          std::vector<int> interpreters) {
  run::GuestUsage usage;
  if (jail == nullptr) co_return usage;
  std::vector<os::ProcessRoot> roots;
  const auto add = [&roots](int pidfd, bool counts) {
    auto pids = os::NamespacePids(pidfd);
    if (pids && !os::HasEnded(pidfd)) roots.push_back({pids->front(), counts});
    return pids && !os::HasEnded(pidfd);
  };
  // Init, or the launcher that is its own, is no process of the guest.
  usage.alive = !jail->gone() && add(jail->root_pidfd(), false);
  for (const int pidfd : interpreters) usage.alive = add(pidfd, true) && usage.alive;
  if (cgroup) {
    usage.memory = cgroup.MemoryUsed();
    if (auto counted = cgroup.Usage()) usage.cpu = counted->cpu;
  }
  auto measure = [&roots]() -> Result<os::ProcessUsage> { return os::MeasureTrees(roots); };
  auto measured = co_await context.decoding->Run(measure);
  if (!measured) co_return usage;
  usage.processes = measured->processes;
  if (!usage.memory) usage.memory = measured->memory;
  if (!usage.cpu) usage.cpu = measured->cpu;
  co_return usage;
}

}  // namespace cella::confine
