#include "executor/cause.h"

#include <fmt/format.h>
#include <signal.h>

#include "base/units.h"

namespace cella::executor {
namespace {

RunError Explain(Cause cause, const Limits& limits) {
  switch (cause) {
    case Cause::kNone: break;
    case Cause::kWallTime:
      return {"Timeout", fmt::format("stopped after {} (--timeout)", FormatDuration(limits.timeout.value)), ""};
    case Cause::kCancel: return {"Cancelled", "stopped before it ended", ""};
    case Cause::kMemory:
      return {"OutOfMemory", fmt::format("used more than {} of memory (--memory)", FormatByteSize(limits.memory.value)),
              ""};
    case Cause::kProcessorTime:
      return {"Limit",
              fmt::format("used more than {} of processor time (--cpu-time)", FormatDuration(limits.cpu_time.value)),
              ""};
    case Cause::kProcesses:
      return {"Limit", fmt::format("wanted more than {} processes and threads (--pids)", limits.pids.value), ""};
    case Cause::kFileSize:
      return {"Limit", fmt::format("wrote a file larger than {} (--disk)", FormatByteSize(limits.disk.value)), ""};
  }
  return {};
}

}  // namespace

void ApplyCause(Cause cause, const Limits& limits, Outcome* outcome) {
  switch (cause) {
    case Cause::kNone: return;
    case Cause::kCancel:
      outcome->status = RunStatus::kCancelled;
      outcome->exit_code = kExitCancelled;
      break;
    case Cause::kWallTime:
      outcome->status = RunStatus::kTimeout;
      outcome->exit_code = kExitTimeout;
      break;
    case Cause::kMemory:
      outcome->status = RunStatus::kOom;
      outcome->exit_code = kExitOom;
      break;
    case Cause::kProcessorTime:
    case Cause::kProcesses:
    case Cause::kFileSize:
      outcome->status = RunStatus::kLimit;
      if (outcome->exit_code == 0) outcome->exit_code = 128 + SIGXCPU;  // as if it had been caught
      break;
  }
  outcome->error = Explain(cause, limits);
}

}  // namespace cella::executor
