#include "run/judge.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/units.h"

namespace cella::run {
namespace {

// Processor time that a process may use after its limit, before the kernel or the watchdog stops it.
constexpr double kCpuSlackMs = 100;

enum class Cause { kNone, kCancel, kWallTime, kMemory, kCpuTime, kProcesses, kFileSize };

// The code's own end, before any cause is considered.
void TakeEnd(const RunFacts& facts, Outcome& outcome) {
  if (facts.answer) {
    using Status = GuestAnswer::Status;
    const GuestAnswer& answer = *facts.answer;
    outcome.exit_code = answer.exit_code;
    outcome.displays_dropped = answer.displays_dropped;
    const bool failed = answer.status == Status::kError || answer.status == Status::kInterrupted;
    if (failed && outcome.exit_code == 0) outcome.exit_code = 1;
    outcome.status = outcome.exit_code == 0 ? RunStatus::kOk : RunStatus::kError;
    return;
  }
  // Without a status of the main process, everything around it was killed.
  const int status = facts.wait_status.value_or(SIGKILL);
  if (WIFSIGNALED(status)) {
    outcome.signal = WTERMSIG(status);
    outcome.exit_code = 128 + WTERMSIG(status);
    outcome.status = RunStatus::kCrashed;
  } else {
    outcome.exit_code = WEXITSTATUS(status);
    // The code was not run to its end, whatever the status.
    if (facts.owes_answer && outcome.exit_code == 0) outcome.exit_code = 1;
    outcome.status = outcome.exit_code == 0 ? RunStatus::kOk : RunStatus::kError;
  }
}

bool IsOverCpuTime(const RunFacts& facts, const Outcome& outcome, double limit_ms) {
  if (facts.killed_for == StopReason::kCpuTime) return true;
  if (outcome.signal == SIGXCPU) return true;
  if (outcome.signal == SIGKILL && facts.usage.cpu_ms >= limit_ms) return true;
  // The watchdog may miss a process that ends between two looks; the sum at the end includes it.
  return facts.usage.cpu_ms > limit_ms + kCpuSlackMs;
}

// What a stop asked for wins over what the kernel did, and what the kernel killed for wins over counters.
Cause FindCause(const RunFacts& facts, const Outcome& outcome, const Limits& limits) {
  if (facts.stop) {
    switch (*facts.stop) {
      case StopReason::kCancel:
      case StopReason::kClientGone:
      case StopReason::kClosing: return Cause::kCancel;
      case StopReason::kTimeout: return Cause::kWallTime;
      case StopReason::kCpuTime: return Cause::kCpuTime;
      case StopReason::kMemory: return Cause::kMemory;
      case StopReason::kProcesses: return Cause::kProcesses;
      case StopReason::kInterrupt: break;
    }
  }
  // A counter that rose counts only where the code failed: it may have caught the failure of a child.
  const bool failed = outcome.exit_code != 0;
  if (facts.killed_for == StopReason::kMemory || (failed && facts.oom_kills > 0)) return Cause::kMemory;
  const double cpu_limit_ms = std::chrono::duration<double, std::milli>(limits.cpu_time.value).count();
  if (IsOverCpuTime(facts, outcome, cpu_limit_ms)) return Cause::kCpuTime;
  if (facts.killed_for == StopReason::kProcesses) return Cause::kProcesses;
  if (outcome.signal == SIGXFSZ) return Cause::kFileSize;
  if (failed && facts.refused_forks > 0) return Cause::kProcesses;
  return Cause::kNone;
}

RunError Explain(Cause cause, const Limits& limits) {
  switch (cause) {
    case Cause::kNone: break;
    case Cause::kWallTime:
      return {"Timeout", fmt::format("stopped after {} (--timeout)", FormatDuration(limits.timeout.value)), ""};
    case Cause::kCancel: return {"Cancelled", "stopped before it ended", ""};
    case Cause::kMemory:
      return {"OutOfMemory", fmt::format("used more than {} of memory (--memory)", FormatByteSize(limits.memory.value)),
              ""};
    case Cause::kCpuTime:
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

void ApplyCause(Cause cause, const Limits& limits, Outcome& outcome) {
  switch (cause) {
    case Cause::kNone: return;
    case Cause::kCancel:
      outcome.status = RunStatus::kCancelled;
      outcome.exit_code = kExitCancelled;
      break;
    case Cause::kWallTime:
      outcome.status = RunStatus::kTimeout;
      outcome.exit_code = kExitTimeout;
      break;
    case Cause::kMemory:
      outcome.status = RunStatus::kOom;
      outcome.exit_code = kExitOom;
      break;
    case Cause::kCpuTime:
    case Cause::kProcesses:
    case Cause::kFileSize:
      outcome.status = RunStatus::kLimit;
      if (outcome.exit_code == 0) outcome.exit_code = 128 + SIGXCPU;  // as if the code had caught the signal
      break;
  }
  outcome.error = Explain(cause, limits);
}

// An end that neither the code nor a limit explains.
void ExplainLoss(const RunFacts& facts, Outcome& outcome) {
  if (facts.answer || outcome.error) return;
  if (facts.place_gone) {
    outcome.status = RunStatus::kCrashed;
    outcome.error = RunError{"JailEnded", "the session's jail was ended from outside", ""};
  } else if (facts.broke_protocol) {
    outcome.status = RunStatus::kCrashed;
    outcome.error = RunError{"RunnerLost", "the code wrote to the session's own channel", ""};
  } else if (!facts.wait_status) {
    outcome.error = RunError{"RunnerLost", "the interpreter ended, and its exit status is unknown", ""};
  } else if (facts.owes_answer && WIFEXITED(*facts.wait_status) && WEXITSTATUS(*facts.wait_status) == 0) {
    outcome.error = RunError{"RunnerLost", "the code ended the interpreter of its session, with exit status 0", ""};
  }
}

}  // namespace

Outcome Judge(const RunFacts& facts, const Limits& limits) {
  Outcome outcome;
  outcome.usage = facts.usage;
  outcome.error = facts.error;
  TakeEnd(facts, outcome);
  const Cause cause = FindCause(facts, outcome, limits);
  if (cause == Cause::kNone) ExplainLoss(facts, outcome);
  ApplyCause(cause, limits, outcome);
  return outcome;
}

}  // namespace cella::run
