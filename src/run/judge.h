// From what is known about the end of a block to its outcome. Pure: no clock, no system call. Every executor fills in
// RunFacts, and this is the only place where status and exit code are decided.
#pragma once

#include <cstdint>
#include <optional>

#include "cella/outcome.h"
#include "cella/policy.h"
#include "cella/run.h"

namespace cella::run {

// What the guest's own side reported at the end of the code. A claim: the guest can forge it.
struct GuestAnswer {
  enum class Status { kOk, kError, kExit, kInterrupted };
  Status status = Status::kOk;
  int exit_code = 0;
  uint64_t displays_dropped = 0;
};

struct RunFacts {
  std::optional<StopReason> stop;        // the request that the driver acted on
  std::optional<StopReason> killed_for;  // why init, the cgroup or the engine killed the guest
  std::optional<GuestAnswer> answer;     // absent: the code's process ended without one
  std::optional<int> wait_status;        // of the main process, as from waitpid
  bool owes_answer = false;              // it is a runner, which answers at the end of the code
  std::optional<RunError> error;         // the exception that the code ended with
  bool place_gone = false;               // the jail or container ended
  bool broke_protocol = false;           // what arrived was no frame of the protocol
  bool still_running = false;            // the driver stopped waiting for the code
  uint64_t oom_kills = 0;                // counters of the kernel, during this block
  uint64_t refused_forks = 0;
  Usage usage;
};

Outcome Judge(const RunFacts& facts, const Limits& limits);

}  // namespace cella::run
