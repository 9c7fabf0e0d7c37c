// The Result of a run is the fold of its events.
#pragma once

#include "executor/executor.h"

namespace cella::session {

class ResultFold : public executor::EventSink {
 public:
  explicit ResultFold(std::string run_id) { result_.id = std::move(run_id); }

  async::Task<bool> Emit(Event event) override;

  // Text is decoded here, lossily. Call once, after the finished event.
  RunResult Take();

 private:
  RunResult result_;
};

// "run_" and 128 random bits.
std::string NewRunId();

}  // namespace cella::session
