// Why a run ended as it did, when it was not the code's own doing: the status, the exit code and the sentence that
// follow from it, for one-shot runs and sessions alike.
#pragma once

#include "cella/outcome.h"
#include "cella/policy.h"

namespace cella::executor {

enum class Cause { kNone, kWallTime, kCancel, kMemory, kProcessorTime, kProcesses, kFileSize };

// Sets status, exit code and error for anything but kNone. The exit code on entry is what the program said itself.
void ApplyCause(Cause cause, const Limits& limits, Outcome* outcome);

}  // namespace cella::executor
