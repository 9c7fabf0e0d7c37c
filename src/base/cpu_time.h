// The processor time of a run.
#pragma once

#include <chrono>

#include "cella/policy.h"

namespace cella {

// Where the caller did not ask for a limit, it follows a longer time-out: a run that may take five minutes may compute
// for all of them.
inline std::chrono::nanoseconds CpuTimeOf(const Limits& limits) {
  if (limits.cpu_time.asked || limits.timeout.value < limits.cpu_time.value) return limits.cpu_time.value;
  return limits.timeout.value;
}

}  // namespace cella
