// Every transition on a fake clock, and every stop request in every state.
#include "run/machine.h"

#include <gtest/gtest.h>

#include "run/stop.h"

namespace cella::run {
namespace {

using namespace std::chrono_literals;
using enum RunState;

const TimePoint kStart = TimePoint{} + 1h;

// In each state that a run can be in.
RunMachine In(RunState state) {
  RunMachine machine;
  if (state == kQueued) return machine;
  (void)machine.Handle(RunInput::kTurn, kStart);
  if (state == kPreparing) return machine;
  (void)machine.Handle(RunInput::kStarted, kStart);
  if (state == kEnding) (void)machine.Request(StopReason::kCancel, kStart);
  if (state == kKilling) (void)machine.Request(StopReason::kMemory, kStart);
  if (state == kSettling || state == kEnded) (void)machine.Handle(RunInput::kAnswered, kStart);
  if (state == kEnded) (void)machine.Handle(RunInput::kSettled, kStart);
  return machine;
}

constexpr RunState kStates[] = {kQueued, kPreparing, kRunning, kEnding, kKilling, kSettling, kEnded};
constexpr RunInput kInputs[] = {RunInput::kTurn,     RunInput::kStarted, RunInput::kInterrupt,  RunInput::kEnd,
                                RunInput::kKill,     RunInput::kTimeout, RunInput::kKilledHere, RunInput::kGraceOver,
                                RunInput::kAnswered, RunInput::kGone,    RunInput::kUnprepared, RunInput::kSettled,
                                RunInput::kNextBlock};

TEST(RunMachineTest, EveryStateCanBeReached) {
  for (RunState state : kStates) EXPECT_EQ(In(state).state(), state) << ToString(state);
}

TEST(RunMachineTest, EveryInputFollowsTheTableAndOthersChangeNothing) {
  for (RunState state : kStates) {
    for (RunInput input : kInputs) {
      RunMachine machine = In(state);
      const Transition* transition = FindTransition(state, input);
      const StopStep step = machine.Handle(input, kStart);
      EXPECT_EQ(machine.state(), transition == nullptr ? state : transition->to)
          << ToString(state) << " + " << ToString(input);
      if (transition == nullptr) EXPECT_EQ(step, StopStep::kNone) << ToString(state) << " + " << ToString(input);
    }
  }
}

TEST(RunMachineTest, EveryRequestInEveryState) {
  struct Row {
    RunState from;
    StopReason reason;
    RunState to;
    StopStep step;
  };
  constexpr auto kInt = StopStep::kInterrupt;
  constexpr auto kKill = StopStep::kKill;
  constexpr auto kNo = StopStep::kNone;
  const Row rows[] = {
      {kQueued, StopReason::kInterrupt, kQueued, kNo},     {kQueued, StopReason::kCancel, kEnded, kNo},
      {kQueued, StopReason::kMemory, kEnded, kNo},         {kPreparing, StopReason::kInterrupt, kPreparing, kNo},
      {kPreparing, StopReason::kCancel, kEnding, kNo},     {kPreparing, StopReason::kMemory, kKilling, kKill},
      {kRunning, StopReason::kInterrupt, kRunning, kInt},  {kRunning, StopReason::kCancel, kEnding, kInt},
      {kRunning, StopReason::kClientGone, kEnding, kInt},  {kRunning, StopReason::kClosing, kEnding, kInt},
      {kRunning, StopReason::kTimeout, kEnding, kInt},     {kRunning, StopReason::kCpuTime, kKilling, kKill},
      {kRunning, StopReason::kProcesses, kKilling, kKill}, {kEnding, StopReason::kInterrupt, kEnding, kNo},
      {kEnding, StopReason::kCancel, kEnding, kNo},        {kEnding, StopReason::kCpuTime, kKilling, kKill},
      {kKilling, StopReason::kCancel, kKilling, kNo},      {kKilling, StopReason::kMemory, kKilling, kNo},
      {kSettling, StopReason::kInterrupt, kSettling, kNo}, {kSettling, StopReason::kCancel, kSettling, kNo},
      {kSettling, StopReason::kMemory, kSettling, kNo},    {kEnded, StopReason::kInterrupt, kEnded, kNo},
      {kEnded, StopReason::kCancel, kEnded, kNo},          {kEnded, StopReason::kMemory, kEnded, kNo},
  };
  for (const Row& row : rows) {
    RunMachine machine = In(row.from);
    const StopStep step = machine.Request(row.reason, kStart);
    EXPECT_EQ(machine.state(), row.to) << ToString(row.from) << " " << static_cast<int>(row.reason);
    EXPECT_EQ(step, row.step) << ToString(row.from) << " " << static_cast<int>(row.reason);
  }
}

TEST(RunMachineTest, CancelEscalatesFromInterruptToKillToDestroyToGivingUp) {
  RunMachine machine = In(kRunning);
  EXPECT_EQ(machine.Request(StopReason::kCancel, kStart), StopStep::kInterrupt);
  EXPECT_EQ(machine.Tick(kStart + 19ms), StopStep::kNone);
  EXPECT_EQ(machine.Tick(kStart + 20ms), StopStep::kNudge);
  const TimePoint grace = kStart + kInterruptGrace;
  StopStep step = StopStep::kNudge;
  while (step == StopStep::kNudge) step = machine.Tick(grace);
  EXPECT_EQ(step, StopStep::kKill);
  EXPECT_EQ(machine.state(), kKilling);
  EXPECT_EQ(machine.next(), grace + kKillPatience);
  EXPECT_EQ(machine.Tick(grace + kKillPatience), StopStep::kDestroy);
  EXPECT_EQ(machine.Tick(grace + kKillPatience), StopStep::kNone);
  EXPECT_EQ(machine.Tick(grace + 2 * kKillPatience), StopStep::kGiveUp);
  EXPECT_EQ(machine.state(), kSettling);
  EXPECT_EQ(machine.stopped_for(), StopReason::kCancel);
}

TEST(RunMachineTest, TheDeadlineEndsARunAndNothingElseDoes) {
  RunMachine machine = In(kPreparing);
  machine.SetDeadline(kStart + 5s);
  (void)machine.Handle(RunInput::kStarted, kStart);
  EXPECT_EQ(machine.next(), kStart + 5s);
  EXPECT_EQ(machine.Tick(kStart + 4s), StopStep::kNone);
  EXPECT_EQ(machine.Tick(kStart + 5s), StopStep::kInterrupt);
  EXPECT_EQ(machine.stopped_for(), StopReason::kTimeout);
  EXPECT_EQ(machine.Handle(RunInput::kAnswered, kStart + 5s), StopStep::kNone);
  EXPECT_EQ(machine.next(), TimePoint::max());
}

TEST(RunMachineTest, AnInterruptBeforeTheStartIsSentAtTheStart) {
  RunMachine machine = In(kPreparing);
  EXPECT_EQ(machine.Request(StopReason::kInterrupt, kStart), StopStep::kNone);
  EXPECT_TRUE(machine.awaits_start());
  EXPECT_EQ(machine.Handle(RunInput::kStarted, kStart + 1ms), StopStep::kInterrupt);
  EXPECT_EQ(machine.state(), kRunning);
  EXPECT_FALSE(machine.awaits_start());
}

TEST(RunMachineTest, AnInterruptForARunThatNeverStartsIsSentAfterItsPatience) {
  RunMachine machine = In(kPreparing);
  (void)machine.Request(StopReason::kInterrupt, kStart);
  EXPECT_EQ(machine.next(), kStart + kStartPatience);
  EXPECT_EQ(machine.Tick(kStart + kStartPatience), StopStep::kInterrupt);
}

TEST(RunMachineTest, ACancelBeforeTheStartIsSentAtTheStartOrKillsAfterTheGrace) {
  RunMachine machine = In(kPreparing);
  EXPECT_EQ(machine.Request(StopReason::kCancel, kStart), StopStep::kNone);
  RunMachine started = machine;
  EXPECT_EQ(started.Handle(RunInput::kStarted, kStart), StopStep::kInterrupt);
  EXPECT_EQ(started.state(), kEnding);
  EXPECT_EQ(machine.Tick(kStart + kInterruptGrace), StopStep::kKill);
}

TEST(RunMachineTest, NudgesDoubleAndEnd) {
  RunMachine machine = In(kRunning);
  (void)machine.Request(StopReason::kInterrupt, kStart);
  int nudges = 0;
  for (TimePoint next = machine.next(); next != TimePoint::max() && nudges < 100; next = machine.next()) {
    EXPECT_EQ(machine.Tick(next), StopStep::kNudge);
    ++nudges;
  }
  EXPECT_EQ(nudges, 7);  // after 20, 40, … 1280 ms
  EXPECT_EQ(machine.state(), kRunning);
}

TEST(RunMachineTest, TheFirstReasonStands) {
  RunMachine machine = In(kRunning);
  (void)machine.Request(StopReason::kCancel, kStart);
  (void)machine.Request(StopReason::kMemory, kStart);
  EXPECT_EQ(machine.stopped_for(), StopReason::kCancel);
  EXPECT_EQ(machine.state(), kKilling);
}

TEST(RunMachineTest, TheNextBlockBeginsAnew) {
  RunMachine machine = In(kSettling);
  (void)machine.Handle(RunInput::kNextBlock, kStart);
  EXPECT_EQ(machine.state(), kPreparing);
  EXPECT_EQ(machine.Request(StopReason::kInterrupt, kStart), StopStep::kNone) << "the new block has not started";
}

}  // namespace
}  // namespace cella::run
