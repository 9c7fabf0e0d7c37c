// Drives the blocks of one run: feeds the machine with what happens, sends its steps to the execution, and has the end
// judged. The only loop around a guest. Lives on the loop.
#pragma once

#include <optional>

#include "run/executor.h"
#include "run/host_calls.h"
#include "run/machine.h"
#include "run/stop.h"

namespace cella::run {

struct BlockEnd {
  Outcome outcome;
  StateReport state;
};

class EventQueue;

class RunDriver {
 public:
  // All of it outlives the driver.
  RunDriver(async::Loop& loop, Guest& guest, StopSource& stop, HostCalls& calls, EventSink& sink)
      : loop_(loop), guest_(guest), stop_(stop), calls_(calls), sink_(sink) {}

  RunState state() const { return machine_.state(); }

  // One block, from its preparation to the state that it left. An Error: nothing ran, and why.
  async::Task<Result<BlockEnd>> Drive(const BlockTurn& turn);

 private:
  async::Task<void> Follow(Execution& execution, EventQueue& queue, const BlockTurn& turn);
  async::Task<Result<RunFacts>> Watch(Execution& execution, const BlockTurn& turn);
  void TakeRequests(Execution& execution, TimePoint now);
  void CheckCpu(Execution& execution, const Limits& limits, TimePoint now);
  void Send(Execution& execution, StopStep step);
  BlockEnd NeverBegun(const BlockTurn& turn) const;

  async::Loop& loop_;
  Guest& guest_;
  StopSource& stop_;
  HostCalls& calls_;
  EventSink& sink_;
  RunMachine machine_;
  bool first_ = true;
  bool gave_up_ = false;    // the guest still runs
  bool interrupts_ = true;  // the block's language supports them
  unsigned interrupts_seen_ = 0;
  std::optional<StopReason> request_seen_;
  TimePoint cpu_check_ = TimePoint::max();
};

}  // namespace cella::run
