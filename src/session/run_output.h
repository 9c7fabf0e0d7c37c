// What the events of a run become on their way to a surface: shown to a tap uncut, capped with head and tail kept,
// folded into the result, and handed on.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/output_cap.h"
#include "run/output.h"
#include "session/fold.h"

namespace cella::session {

struct OutputShape {
  // Of each stream; absent: output is passed on as it is, and is no part of the result.
  std::optional<uint64_t> cap;
  // Sees everything that the run writes, before it is capped.
  std::function<void(Stream, std::string_view)> tap;
  // Keeps outputs that are too large for the Result.
  OutputKeeper keep;
  // The started event waits for the next one, and is dropped if that says that nothing ran.
  bool holds_started = false;
};

class RunOutput : public run::EventSink {
 public:
  // `next` may be null; it outlives this.
  RunOutput(std::string run_id, run::EventSink* next, OutputShape shape);

  async::Task<bool> Emit(Event event) override;
  bool independent_streams() const override { return next_ != nullptr && next_->independent_streams(); }

  // When the output has ended: emits what was held back.
  async::Task<void> Flush();
  // Once, after the finished event.
  RunResult Take() { return fold_.Take(); }

 private:
  async::Task<bool> Forward(Event event);
  async::Task<bool> EmitAfterStarted(Event event);
  async::Task<void> FlushStream(Stream stream, OutputCap& cap);

  ResultFold fold_;
  run::EventSink* next_;
  OutputShape shape_;
  OutputCap stdout_, stderr_;
  std::optional<StartedEvent> started_;  // held back
};

}  // namespace cella::session
