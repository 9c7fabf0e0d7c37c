// The states of one run and what a stop request does in each. Pure: the time is an argument, and a step that is due is
// a return value. The driver feeds it what happened and sends the steps to the execution.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "async/task.h"
#include "cella/run.h"

namespace cella::run {

using async::TimePoint;

// After SIGINT, before SIGKILL: docs/sessions.md and the Python package name the same time.
inline constexpr auto kInterruptGrace = std::chrono::seconds(1);
// After SIGKILL, before the whole place is destroyed; and once more before the driver stops waiting.
inline constexpr auto kKillPatience = std::chrono::seconds(2);
// An interrupt waits this long for a run that has been sent and has not started.
inline constexpr auto kStartPatience = std::chrono::seconds(3);
// Between two looks whether the code has started, while an interrupt waits for that.
inline constexpr auto kStartPoll = std::chrono::milliseconds(1);

enum class RunState {
  kQueued,     // waits for its turn
  kPreparing,  // the guest is made ready, or has been sent the block and has not started it
  kRunning,
  kEnding,    // interrupted, with a time of grace
  kKilling,   // SIGKILL was sent
  kSettling,  // the block is over: output is drained, facts are read
  kEnded,
};

enum class RunInput {
  kTurn,       // the run's turn came
  kStarted,    // the code has begun
  kInterrupt,  // requests, by strength
  kEnd,
  kKill,
  kTimeout,     // the deadline passed
  kKilledHere,  // init, cgroup or engine has killed the code
  kGraceOver,
  kAnswered,    // the guest reported the end of the code
  kGone,        // the code's process has ended, or its place has
  kUnprepared,  // the block could not be begun
  kSettled,     // after the last block
  kNextBlock,
};

enum class StopStep { kNone, kInterrupt, kNudge, kKill, kDestroy, kGiveUp };

std::string_view ToString(RunState state);
std::string_view ToString(RunInput input);
std::string_view ToString(StopStep step);

struct Transition {
  RunState from;
  RunInput input;
  RunState to;
  StopStep step = StopStep::kNone;
};
// The row for a pair; null: the input changes nothing in that state.
const Transition* FindTransition(RunState state, RunInput input);

class RunMachine {
 public:
  RunState state() const { return state_; }
  // The reason that moved the run out of running.
  std::optional<StopReason> stopped_for() const { return stopped_for_; }

  // The step that is due now because of the input.
  StopStep Handle(RunInput input, TimePoint now);
  // The same for a request.
  StopStep Request(StopReason reason, TimePoint now);

  // The block was sent: its time runs from here.
  void SetDeadline(TimePoint deadline) { deadline_ = deadline; }
  // The step that is due because time passed. Call again until kNone.
  StopStep Tick(TimePoint now);
  // When Tick has something to do.
  TimePoint next() const;
  // An interrupt waits for the start of the code, which the execution should look for.
  bool awaits_start() const { return interrupt_due_; }

 private:
  StopStep Enter(const Transition& transition, TimePoint now);
  StopStep SendInterrupt(TimePoint now);

  RunState state_ = RunState::kQueued;
  std::optional<StopReason> stopped_for_;
  bool started_ = false;
  bool interrupt_due_ = false;  // to be sent when the code has started
  bool destroyed_ = false;
  TimePoint deadline_ = TimePoint::max();
  TimePoint start_by_ = TimePoint::max();   // an interrupt is sent then at the latest
  TimePoint next_step_ = TimePoint::max();  // of ending and killing
  TimePoint nudge_at_ = TimePoint::max();
  std::chrono::nanoseconds nudge_pause_{};
};

}  // namespace cella::run
