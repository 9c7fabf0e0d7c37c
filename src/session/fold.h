// The Result of a run is the fold of its events.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/output.h"

namespace cella::session {

// The output without its representations, which are named in `left_out`; a short text stays.
MimeBundle WithoutLargeData(const MimeBundle& bundle);

// Takes an output that is too large for the Result, and its index there.
using OutputKeeper = std::function<async::Task<void>(size_t index, MimeBundle bundle)>;

class ResultFold : public run::EventSink {
 public:
  // `keep` may be empty.
  explicit ResultFold(std::string run_id, OutputKeeper keep = {}) : keep_(std::move(keep)) {
    result_.id = std::move(run_id);
  }

  async::Task<bool> Emit(Event event) override;

  // Text is decoded here, lossily. Call once, after the finished event.
  RunResult Take();

 private:
  const OutputKeeper keep_;
  RunResult result_;
  std::vector<std::pair<std::string, size_t>> shown_;  // ids of displays, and where they are
  size_t output_bytes_ = 0;
  std::optional<std::pair<size_t, MimeBundle>> left_out_;  // to be kept
};

// "run_" and 128 random bits.
std::string NewRunId();
// "ses_", likewise.
std::string NewSessionId();

}  // namespace cella::session
