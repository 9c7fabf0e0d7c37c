// Every transition on a fake clock, and every stop request in every state.
#include "run/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

// One cell per pair: the letter of the next state and that of the step, as LetterOf gives them.
char LetterOf(RunState state) { return "QPREKSD"[static_cast<size_t>(state)]; }
char LetterOf(StopStep step) { return ".inkdg"[static_cast<size_t>(step)]; }
std::string CellOf(const RunMachine& machine, StopStep step) { return {LetterOf(machine.state()), LetterOf(step)}; }

// Written out here and not read from the machine's table, so that a wrong row there fails.
TEST(RunMachineTest, EveryInputInEveryStateHasItsNextStateAndStep) {
  constexpr std::string_view kExpected[std::size(kStates)][std::size(kInputs)] = {
      // turn started interrupt end kill timeout killed-here grace-over answered gone unprepared settled next-block
      {"P.", "Q.", "Q.", "D.", "D.", "Q.", "Q.", "Q.", "Q.", "Q.", "Q.", "Q.", "Q."},  // queued
      {"P.", "R.", "P.", "E.", "Kk", "E.", "K.", "P.", "S.", "S.", "S.", "P.", "P."},  // preparing
      {"R.", "R.", "Ri", "Ei", "Kk", "Ei", "K.", "R.", "S.", "S.", "R.", "R.", "R."},  // running
      {"E.", "E.", "E.", "E.", "Kk", "E.", "K.", "Kk", "S.", "S.", "E.", "E.", "E."},  // ending
      {"K.", "K.", "K.", "K.", "K.", "K.", "K.", "K.", "S.", "S.", "K.", "K.", "K."},  // killing
      {"S.", "S.", "S.", "S.", "S.", "S.", "S.", "S.", "S.", "S.", "S.", "D.", "P."},  // settling
      {"D.", "D.", "D.", "D.", "D.", "D.", "D.", "D.", "D.", "D.", "D.", "D.", "D."},  // ended
  };
  for (size_t state = 0; state < std::size(kStates); ++state) {
    for (size_t input = 0; input < std::size(kInputs); ++input) {
      RunMachine machine = In(kStates[state]);
      const StopStep step = machine.Handle(kInputs[input], kStart);
      EXPECT_EQ(CellOf(machine, step), kExpected[state][input])
          << ToString(kStates[state]) << " + " << ToString(kInputs[input]);
    }
  }
}

TEST(RunMachineTest, EveryRequestInEveryStateHasItsNextStateAndStep) {
  constexpr StopReason kReasons[] = {StopReason::kInterrupt, StopReason::kCancel,   StopReason::kClientGone,
                                     StopReason::kClosing,   StopReason::kTimeout,  StopReason::kCpuTime,
                                     StopReason::kMemory,    StopReason::kProcesses};
  constexpr std::string_view kExpected[std::size(kStates)][std::size(kReasons)] = {
      // interrupt cancel client-gone closing timeout cpu-time memory processes
      {"Q.", "D.", "D.", "D.", "Q.", "D.", "D.", "D."},  // queued: no deadline runs
      {"P.", "E.", "E.", "E.", "E.", "Kk", "Kk", "Kk"},  // preparing: the signal waits for the start
      {"Ri", "Ei", "Ei", "Ei", "Ei", "Kk", "Kk", "Kk"},  // running
      {"E.", "E.", "E.", "E.", "E.", "Kk", "Kk", "Kk"},  // ending: only a stronger request counts
      {"K.", "K.", "K.", "K.", "K.", "K.", "K.", "K."},  // killing
      {"S.", "S.", "S.", "S.", "S.", "S.", "S.", "S."},  // settling
      {"D.", "D.", "D.", "D.", "D.", "D.", "D.", "D."},  // ended
  };
  for (size_t state = 0; state < std::size(kStates); ++state) {
    for (size_t reason = 0; reason < std::size(kReasons); ++reason) {
      RunMachine machine = In(kStates[state]);
      const StopStep step = machine.Request(kReasons[reason], kStart);
      EXPECT_EQ(CellOf(machine, step), kExpected[state][reason]) << ToString(kStates[state]) << ", reason " << reason;
    }
  }
}

// Whatever is requested in whatever state, time alone brings the run to its end.
TEST(RunMachineTest, AfterARequestThatEndsTheRunTimeAloneEndsIt) {
  for (RunState state : {kPreparing, kRunning, kEnding, kKilling}) {
    for (StopReason reason : {StopReason::kCancel, StopReason::kClosing, StopReason::kTimeout, StopReason::kMemory}) {
      RunMachine machine = In(state);
      (void)machine.Request(reason, kStart);
      TimePoint now = kStart;
      StopStep last = StopStep::kNone;
      for (int ticks = 0; machine.state() != kSettling && ticks < 100; ++ticks) {
        now = std::max(now, machine.next());
        if (const StopStep step = machine.Tick(now); step != StopStep::kNone) last = step;
      }
      EXPECT_EQ(machine.state(), kSettling) << ToString(state) << ", reason " << static_cast<int>(reason);
      EXPECT_EQ(last, StopStep::kGiveUp);
      EXPECT_LE(now, kStart + kInterruptGrace + 2 * kKillPatience);
    }
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
