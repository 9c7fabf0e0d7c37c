// The Result of a run is the fold of its events.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "run/output.h"

namespace cella::session {

class ResultFold : public run::EventSink {
 public:
  explicit ResultFold(std::string run_id) { result_.id = std::move(run_id); }

  async::Task<bool> Emit(Event event) override;

  // Text is decoded here, lossily. Call once, after the finished event.
  RunResult Take();

 private:
  RunResult result_;
  std::vector<std::pair<std::string, size_t>> shown_;  // ids of displays, and where they are
  size_t output_bytes_ = 0;
};

// "run_" and 128 random bits.
std::string NewRunId();
// "ses_", likewise.
std::string NewSessionId();

}  // namespace cella::session
