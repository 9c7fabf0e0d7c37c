#include "executor/container/program_to_end.h"

#include <algorithm>

#include "run/judge.h"
#include "run/machine.h"

namespace cella::executor {
namespace {

using async::Task;

// How often a request to stop is looked for.
constexpr auto kSlice = std::chrono::milliseconds(50);

// The steps of a run that does not end (run/machine.h): a signal does not reach a paused container.
run::StopStep NextStep(run::StopStep last) {
  if (last == run::StopStep::kNone) return run::StopStep::kKill;
  return last == run::StopStep::kKill ? run::StopStep::kDestroy : run::StopStep::kGiveUp;
}

class Collected : public run::Output {
 public:
  Collected(EndedProgram& program, size_t bytes) : program_(program), bytes_(bytes) {}

  void Push(Event event) override {
    const auto* output = std::get_if<OutputEvent>(&event);
    if (output == nullptr) return;
    if (output->stream == Stream::kStdout) {
      program_.output.append(output->bytes, 0, bytes_ - std::min(bytes_, program_.output.size()));
    }
    program_.tail += output->bytes;
    if (program_.tail.size() > bytes_) program_.tail.erase(0, program_.tail.size() - bytes_);
  }
  bool full(Stream) const override { return false; }
  void Call(run::HostCall) override {}

 private:
  EndedProgram& program_;
  const size_t bytes_;
};

}  // namespace

Task<Result<EndedProgram>> RunToEnd(confine::ProgramPlace place, confine::Program program, ProgramBounds bounds,
                                    run::StopToken stop) {
  CO_TRY(auto execution, confine::StartProgram(place, std::move(program)));
  const async::TimePoint deadline = async::Clock::now() + bounds.time;
  EndedProgram ended;
  Collected output(ended, bounds.output);
  run::StopStep last = run::StopStep::kNone;
  for (async::TimePoint next_step = deadline; last != run::StopStep::kGiveUp;) {
    const async::TimePoint now = async::Clock::now();
    const bool begins_to_end = last == run::StopStep::kNone && stop.ending();
    if (begins_to_end || now >= next_step) {
      if (last == run::StopStep::kNone) ended.timed_out = !stop.ending();
      last = NextStep(last);
      execution->Send(last);
      next_step = now + run::kKillPatience;
    }
    auto progress = co_await execution->Advance(now + kSlice, output);
    if (progress == run::Progress::kGone) break;
  }
  auto facts = co_await execution->Finish(output);
  if (!facts) co_return std::unexpected(std::move(facts.error()));
  if (facts->place_gone) co_return Err(ErrorCode::kClosed, "the container has ended");
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  if (last == run::StopStep::kGiveUp)
    co_return Err(ErrorCode::kClosed, "a program does not end although it was killed");
  ended.outcome = run::Judge(*facts, bounds.limits);
  co_return ended;
}

}  // namespace cella::executor
