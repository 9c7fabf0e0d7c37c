// What one block has used: the counters of its cgroup, less what they were when it began.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "os/cgroup.h"
#include "run/judge.h"

namespace cella::confine {

// By values of the cgroup that the caller reads; without a value nothing is counted.
class BlockUsage {
 public:
  // Processor time counts from the first call, kills and refused forks from the last: a block may have several
  // programs, and only those of the last one explain its end.
  void Begin(const std::optional<os::CgroupUsage>& now);
  std::optional<std::chrono::nanoseconds> Cpu(const std::optional<os::CgroupUsage>& now) const;
  void AddTo(run::RunFacts* facts, const std::optional<os::CgroupUsage>& now) const;

 private:
  std::optional<std::chrono::nanoseconds> cpu_before_;
  uint64_t oom_kills_before_ = 0, refused_forks_before_ = 0;
};

// The same by a meter, for blocks of microseconds. The meter outlives this.
class MeteredUsage {
 public:
  explicit MeteredUsage(const os::CgroupMeter& meter);
  std::optional<std::chrono::nanoseconds> Cpu() const;
  // Kills and refused forks are read only if the answer, or its absence, is a failure that they could explain.
  void AddTo(run::RunFacts* facts) const;

 private:
  const os::CgroupMeter& meter_;
  const std::chrono::nanoseconds cpu_before_;
  const uint64_t oom_kills_before_, refused_forks_before_;
};

}  // namespace cella::confine
