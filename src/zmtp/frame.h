// Frames of ZMTP 3 (ZeroMQ's wire protocol) behind the greeting: how they are written, and how they are cut out of the
// bytes of a peer, who may be hostile. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::zmtp {

struct Bounds {
  size_t message_bytes = size_t{32} << 20;  // beyond it, parts are skipped and counted
  size_t parts = 64;                        // of a message
  size_t command_bytes = 4096;
};

// A part of a message, or a command. The body is empty and `skipped` is its size where it was beyond the bound.
struct Frame {
  bool more = false;
  bool command = false;
  std::string body;
  uint64_t skipped = 0;
};

void AppendFrame(std::string& out, std::string_view body, bool more, bool command = false);

// Cuts frames out of bytes that come in any pieces. What it holds is bounded by the bounds.
class FrameReader {
 public:
  explicit FrameReader(Bounds bounds) : bounds_(bounds) {}

  // Takes bytes off the front of `bytes` until a frame is complete (true) or they are used up (false). After an Error
  // the peer is not to be read any further.
  Result<bool> Read(std::string_view& bytes, Frame& frame);

 private:
  Status BeginFrame();

  const Bounds bounds_;
  std::string head_;  // flags and length so far
  bool in_body_ = false;
  Frame frame_;
  uint64_t left_ = 0;     // of the frame's body
  uint64_t message_ = 0;  // bytes of the message so far that are kept
  size_t parts_ = 0;      // of the message so far
};

}  // namespace cella::zmtp
