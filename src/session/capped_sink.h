// Stands between an executor and a renderer: bounds each output stream, keeping its head and its tail.
#pragma once

#include "base/output_cap.h"
#include "executor/executor.h"

namespace cella::session {

class CappedSink : public executor::EventSink {
 public:
  // `next` outlives this.
  CappedSink(executor::EventSink& next, uint64_t cap) : next_(next), stdout_(cap), stderr_(cap) {}

  async::Task<bool> Emit(Event event) override;

  // Call when the run's output has ended: emits what was held back.
  async::Task<void> Flush();

 private:
  async::Task<void> FlushStream(Stream stream, OutputCap& cap);

  executor::EventSink& next_;
  OutputCap stdout_;
  OutputCap stderr_;
};

}  // namespace cella::session
