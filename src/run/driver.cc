#include "run/driver.h"

#include <algorithm>
#include <thread>

#include "async/caught.h"
#include "async/deadline.h"
#include "run/event_queue.h"

namespace cella::run {
namespace {

using namespace std::chrono_literals;

// After a request that ends the run, for a sink that does not take what is left.
constexpr auto kAbandonAfter = 250ms;
constexpr auto kLeastCpuPause = 5ms;
// A deadline further away is none: adding it to a time point could overflow.
constexpr auto kForever = std::chrono::hours(24 * 365);

RunInput InputOf(Progress progress) {
  switch (progress) {
    case Progress::kStarted: return RunInput::kStarted;
    case Progress::kKilledHere: return RunInput::kKilledHere;
    case Progress::kAnswered: return RunInput::kAnswered;
    case Progress::kGone:
    case Progress::kNothing: break;
  }
  return RunInput::kGone;
}

// The reader of the events decides how long this takes, unless the run is to end.
async::Task<Status> HandOver(async::Loop& loop, EventQueue& queue, StopToken stop) {
  if (queue.idle()) co_return co_await queue.Drain();
  async::TaskGroup impatience(loop);
  auto abandon = [](EventQueue& events, StopToken token) -> async::Task<void> {
    bool ending = co_await token.Ending();
    if (!ending) co_return;
    bool slept = co_await async::SleepUntil(async::Clock::now() + kAbandonAfter);
    if (slept) events.Abandon();
  };
  impatience.Add(abandon(queue, stop));
  auto drained = co_await queue.Drain();
  impatience.Cancel();
  co_await impatience.Join();
  co_return drained;
}

}  // namespace

void RunDriver::Send(Execution& execution, StopStep step) {
  if (step != StopStep::kNone && step != StopStep::kGiveUp) execution.Send(step);
}

void RunDriver::TakeRequests(Execution& execution, TimePoint now) {
  if (interrupts_seen_ != stop_.interrupts() && !interrupts_) (void)stop_.Request(StopReason::kCancel);
  for (; interrupts_seen_ != stop_.interrupts(); ++interrupts_seen_) {
    if (interrupts_) Send(execution, machine_.Request(StopReason::kInterrupt, now));
  }
  const std::optional<StopReason> reason = stop_.reason();
  if (!reason || !EndsRun(*reason) || request_seen_ == reason) return;
  request_seen_ = reason;
  Send(execution, machine_.Request(*reason, now));
}

void RunDriver::CheckCpu(Execution& execution, const Limits& limits, TimePoint now) {
  if (now < cpu_check_) return;
  cpu_check_ = TimePoint::max();
  if (machine_.state() != RunState::kPreparing && machine_.state() != RunState::kRunning) return;
  const auto used = execution.CpuUsed();
  if (!used) return;
  const auto left = limits.cpu_time.value - *used;
  if (left <= 0ns) return Send(execution, machine_.Request(StopReason::kCpuTime, now));
  // Even with all processors busy the limit is not reached sooner. Asking for their number reads a file.
  static const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  cpu_check_ = now + std::max<std::chrono::nanoseconds>(left / processors, kLeastCpuPause);
}

// Until the block is over. An exception of this and of what follows must not leave tasks of the run behind.
async::Task<void> RunDriver::Follow(Execution& execution, EventQueue& queue, const BlockTurn& turn) {
  TimePoint now = async::Clock::now();
  if (turn.limits.timeout.value < kForever) machine_.SetDeadline(now + turn.limits.timeout.value);
  cpu_check_ = now;
  for (;;) {
    TakeRequests(execution, now);
    CheckCpu(execution, turn.limits, now);
    for (StopStep step; (step = machine_.Tick(now)) != StopStep::kNone;) {
      gave_up_ = gave_up_ || step == StopStep::kGiveUp;
      Send(execution, step);
    }
    if (machine_.state() == RunState::kSettling) co_return;
    TimePoint until = std::min(machine_.next(), cpu_check_);
    if (machine_.awaits_start()) until = std::min(until, now + kStartPoll);
    const Progress progress = co_await execution.Advance(until, queue);
    now = async::Clock::now();
    if (progress != Progress::kNothing) {
      Send(execution, machine_.Handle(InputOf(progress), now));
    } else if (machine_.awaits_start() && execution.HasStarted()) {
      Send(execution, machine_.Handle(RunInput::kStarted, now));
    }
  }
}

async::Task<Result<RunFacts>> RunDriver::Watch(Execution& execution, const BlockTurn& turn) {
  EventQueue queue(
      loop_, sink_, calls_,
      {.on_room = [&] { execution.Wake(); }, .on_closed = [&](Stream stream) { execution.CloseOutput(stream); }});
  stop_.SetListener([&] { execution.Wake(); });
  // A call of the runner is an event of its own: an input request.
  auto show = [&](const HostCallRecord& call) {
    if (call.door != CallDoor::kSocket) return;
    const double wall_ms = std::chrono::duration<double, std::milli>(call.duration).count();
    queue.Push(ToolEvent{call.space, call.operation, call.outcome, wall_ms});
  };
  calls_.Open([&](HostReply reply) { execution.Answer(std::move(reply)); }, show,
              [&](std::string_view line) { queue.Push(ProgressEvent{std::string(line)}); });
  gave_up_ = false;
  auto followed = co_await async::Caught(Follow(execution, queue, turn));
  // The guest is not watched any more.
  if (!followed) execution.Send(StopStep::kKill);
  if (turn.last) stop_.CloseToInterrupts();
  auto closed = co_await async::Caught(calls_.Close());
  auto facts = co_await async::Caught(execution.Finish(queue));
  stop_.SetListener(nullptr);
  if (!followed) queue.Abandon();
  auto handed_on = co_await HandOver(loop_, queue, stop_.token());
  for (const Status& each : {followed, closed, handed_on}) {
    if (!each) co_return std::unexpected(Error(each.error()).WithContext("the run could not go on"));
  }
  if (!facts) co_return facts;
  facts->stop = machine_.stopped_for();
  facts->still_running = gave_up_;
  co_return facts;
}

// A request ended the run while the guest was made ready: nothing ran and nothing changed.
BlockEnd RunDriver::NeverBegun(const BlockTurn& turn) const {
  BlockEnd end;
  RunFacts facts;
  facts.stop = stop_.reason();
  facts.wait_status = 0;
  end.outcome = Judge(facts, turn.limits);
  end.state.state = TraitsOf(guest_, turn.run.as, turn.block.language).state ? StateAfter::kKept : StateAfter::kNone;
  return end;
}

async::Task<Result<BlockEnd>> RunDriver::Drive(const BlockTurn& turn) {
  const TimePoint start = async::Clock::now();
  (void)machine_.Handle(std::exchange(first_, false) ? RunInput::kTurn : RunInput::kNextBlock, start);
  interrupts_ = TraitsOf(guest_, turn.run.as, turn.block.language).interrupt;
  auto execution = co_await async::Caught(guest_.Begin(turn, stop_.token()));
  if (!execution) {
    (void)machine_.Handle(RunInput::kUnprepared, async::Clock::now());
    if (stop_.token().ending()) co_return NeverBegun(turn);
    co_return std::unexpected(std::move(execution.error()));
  }
  auto watched = co_await Watch(**execution, turn);
  if (!watched) co_return std::unexpected(std::move(watched.error()));
  RunFacts& facts = *watched;
  facts.usage.wall_ms = std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
  BlockEnd end;
  end.outcome = Judge(facts, turn.limits);
  auto after = co_await async::Caught(guest_.AfterBlock(facts, sink_));
  if (!after) co_return std::unexpected(std::move(after.error()));
  end.state = std::move(*after);
  co_return end;
}

}  // namespace cella::run
