#include "run/machine.h"

#include <algorithm>

#include "run/stop.h"

namespace cella::run {
namespace {

using namespace std::chrono_literals;
using enum RunState;
using enum RunInput;

// A signal that arrives when an interpreter is about to block may go unnoticed: nudges follow, each after twice the
// time.
constexpr auto kFirstNudge = 20ms;
constexpr auto kLastNudge = 2s;

constexpr Transition kTransitions[] = {
    {kQueued, kTurn, kPreparing},
    {kQueued, kEnd, kEnded},
    {kQueued, kKill, kEnded},
    {kPreparing, kStarted, kRunning},
    {kPreparing, kInterrupt, kPreparing, StopStep::kInterrupt},
    {kPreparing, kEnd, kEnding, StopStep::kInterrupt},
    {kPreparing, kTimeout, kEnding, StopStep::kInterrupt},
    {kPreparing, kKill, kKilling, StopStep::kKill},
    {kPreparing, kKilledHere, kKilling},
    {kPreparing, kAnswered, kSettling},
    {kPreparing, kGone, kSettling},
    {kPreparing, kUnprepared, kSettling},
    {kRunning, kInterrupt, kRunning, StopStep::kInterrupt},
    {kRunning, kEnd, kEnding, StopStep::kInterrupt},
    {kRunning, kTimeout, kEnding, StopStep::kInterrupt},
    {kRunning, kKill, kKilling, StopStep::kKill},
    {kRunning, kKilledHere, kKilling},
    {kRunning, kAnswered, kSettling},
    {kRunning, kGone, kSettling},
    {kEnding, kKill, kKilling, StopStep::kKill},
    {kEnding, kGraceOver, kKilling, StopStep::kKill},
    {kEnding, kKilledHere, kKilling},
    {kEnding, kAnswered, kSettling},
    {kEnding, kGone, kSettling},
    {kKilling, kAnswered, kSettling},
    {kKilling, kGone, kSettling},
    {kSettling, kNextBlock, kPreparing},
    {kSettling, kSettled, kEnded},
};

}  // namespace

std::string_view ToString(RunState state) {
  switch (state) {
    case kQueued: return "queued";
    case kPreparing: return "preparing";
    case kRunning: return "running";
    case kEnding: return "ending";
    case kKilling: return "killing";
    case kSettling: return "settling";
    case kEnded: return "ended";
  }
  return "";
}

std::string_view ToString(RunInput input) {
  switch (input) {
    case kTurn: return "turn";
    case kStarted: return "started";
    case kInterrupt: return "interrupt";
    case kEnd: return "end";
    case kKill: return "kill";
    case kTimeout: return "timeout";
    case kKilledHere: return "killed here";
    case kGraceOver: return "grace over";
    case kAnswered: return "answered";
    case kGone: return "gone";
    case kUnprepared: return "unprepared";
    case kSettled: return "settled";
    case kNextBlock: return "next block";
  }
  return "";
}

std::string_view ToString(StopStep step) {
  switch (step) {
    case StopStep::kNone: return "none";
    case StopStep::kInterrupt: return "interrupt";
    case StopStep::kNudge: return "nudge";
    case StopStep::kKill: return "kill";
    case StopStep::kDestroy: return "destroy";
    case StopStep::kGiveUp: return "give up";
  }
  return "";
}

const Transition* FindTransition(RunState state, RunInput input) {
  for (const Transition& each : kTransitions) {
    if (each.from == state && each.input == input) return &each;
  }
  return nullptr;
}

// Before the code has started the signal could end the interpreter instead of the code.
StopStep RunMachine::SendInterrupt(TimePoint now) {
  if (!started_) {
    if (!interrupt_due_) start_by_ = now + kStartPatience;
    interrupt_due_ = true;
    return StopStep::kNone;
  }
  interrupt_due_ = false;
  start_by_ = TimePoint::max();
  nudge_pause_ = kFirstNudge;
  nudge_at_ = now + nudge_pause_;
  return StopStep::kInterrupt;
}

StopStep RunMachine::Enter(const Transition& transition, TimePoint now) {
  state_ = transition.to;
  switch (state_) {
    case kPreparing:
      if (transition.input != kNextBlock) break;
      started_ = false;
      deadline_ = TimePoint::max();
      break;
    case kEnding: next_step_ = now + kInterruptGrace; break;
    case kKilling:
      next_step_ = now + kKillPatience;
      interrupt_due_ = false;
      nudge_at_ = start_by_ = TimePoint::max();
      break;
    case kSettling:
    case kEnded:
      interrupt_due_ = false;
      next_step_ = nudge_at_ = start_by_ = deadline_ = TimePoint::max();
      break;
    default: break;
  }
  return transition.step == StopStep::kInterrupt ? SendInterrupt(now) : transition.step;
}

StopStep RunMachine::Handle(RunInput input, TimePoint now) {
  if (input == kStarted && !std::exchange(started_, true) && interrupt_due_) {
    if (state_ == kPreparing) state_ = kRunning;
    return SendInterrupt(now);
  }
  const Transition* transition = FindTransition(state_, input);
  return transition == nullptr ? StopStep::kNone : Enter(*transition, now);
}

StopStep RunMachine::Request(StopReason reason, TimePoint now) {
  const int strength = Strength(reason);
  const RunInput input = strength == 0                    ? kInterrupt
                         : strength == 2                  ? kKill
                         : reason == StopReason::kTimeout ? kTimeout
                                                          : kEnd;
  const bool before = state_ == kQueued || state_ == kPreparing || state_ == kRunning;
  if (strength > 0 && before && !stopped_for_) stopped_for_ = reason;
  return Handle(input, now);
}

StopStep RunMachine::Tick(TimePoint now) {
  if (interrupt_due_ && now >= start_by_) return Handle(kStarted, now);
  if (now >= nudge_at_) {
    nudge_pause_ *= 2;
    nudge_at_ = nudge_pause_ <= kLastNudge ? now + nudge_pause_ : TimePoint::max();
    return StopStep::kNudge;
  }
  if (now >= deadline_ && (state_ == kPreparing || state_ == kRunning)) return Request(StopReason::kTimeout, now);
  if (now < next_step_) return StopStep::kNone;
  if (state_ == kEnding) return Handle(kGraceOver, now);
  if (state_ != kKilling) return StopStep::kNone;
  next_step_ = now + kKillPatience;
  if (!std::exchange(destroyed_, true)) return StopStep::kDestroy;
  (void)Handle(kGone, now);
  return StopStep::kGiveUp;
}

TimePoint RunMachine::next() const {
  TimePoint next = std::min({next_step_, nudge_at_, start_by_});
  if (state_ == kPreparing || state_ == kRunning) next = std::min(next, deadline_);
  return next;
}

}  // namespace cella::run
