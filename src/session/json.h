// Results and events as JSON text, one line each. No third-party types: they stay in the .cc file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cella/event.h"
#include "cella/outcome.h"

namespace cella::session {

// The Result of design section 4.
std::string ToJson(const RunResult& result);

// The number and the type of an event's line, which the encoder writes first: no text of a guest stands before them.
struct EventHead {
  std::string_view number;
  std::string_view type;
};
EventHead HeadOf(std::string_view line);

// Renders events of one run in order; the number is part of each.
class EventEncoder {
 public:
  explicit EventEncoder(std::string run_id) : run_id_(std::move(run_id)) {}

  // Empty when there is nothing to say yet (a character is still incomplete).
  std::string Encode(const Event& event);

  // What an unfinished character left behind, for the end of the streams.
  std::string Flush(Stream stream);

 private:
  std::string run_id_;
  uint64_t number_ = 0;
  std::string pending_[2];
};

}  // namespace cella::session
