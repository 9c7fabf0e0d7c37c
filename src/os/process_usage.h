// What processes use now, read from /proc: for places that no cgroup counts, and to count processes. The numbers of
// processes are only read with, never signalled: one that passes on meanwhile makes the sum wrong, and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace cella::os {

struct ProcessRoot {
  int pid = 0;
  bool counts = true;  // false: only its descendants do
};

struct ProcessUsage {
  uint64_t processes = 0;
  uint64_t memory = 0;                // resident bytes that belong to no file
  std::chrono::nanoseconds cpu = {};  // of those that live and of the children that they waited for
};

// Of the roots and all their descendants; zombies do not count. Looks at kMostProcesses at most. Blocks on /proc.
inline constexpr size_t kMostProcesses = 8192;
ProcessUsage MeasureTrees(std::span<const ProcessRoot> roots);

}  // namespace cella::os
