// What the container's own cgroup counts, as it is mounted inside (version 1 or 2). Where nothing is readable, zeros.
#pragma once

#include "agent/wire.h"

namespace cella::agent {

class Meter {
 public:
  Meter();
  bool has_memory() const { return memory_ != nullptr; }
  bool has_pids() const { return pids_ != nullptr; }
  Counters Read() const;
  // The cgroup's figures where it is readable, else those of the processes below the agent.
  Measured Measure() const;

 private:
  struct Files;
  const Files* memory_ = nullptr;
  const Files* pids_ = nullptr;
};

}  // namespace cella::agent
