// A runner in a jail, and a checkpoint of one: both are processes that wait at the other end of a socket.
#pragma once

#include <memory>
#include <utility>

#include "base/json.h"
#include "base/unique_fd.h"
#include "executor/sandbox/zygote.h"
#include "runner/channel.h"
#include "runner/protocol.h"

namespace cella::executor {

struct Runner {
  runner::Channel channel;
  UniqueFd pidfd;                  // of one that was forked: readable when it has ended. In a container a socket
  std::shared_ptr<Zygote> zygote;  // its parent; null: init is, and reports its end
  uint32_t tag = 0;                // in those reports
  int group = 0;                   // its process group as init numbers it; 0: not asked yet
  uint64_t runs = 0;               // that it has finished: zero means that there is no state to lose

  explicit operator bool() const { return static_cast<bool>(channel); }
  // The group, read in the pid namespace: that is impossible after the runner's end. 0: unknown.
  int Group();
  // Its end of the socket is open, as long as it lives or a fork of it. Reads nothing.
  bool IsConnected() const;
};

struct RunnerCopy {
  runner::Channel channel;
  UniqueFd pidfd;
  int group = 0;  // as init numbers it, where that is not read from the pidfd
};

// Why ReadFrames returned.
enum class FramesEnd {
  kStopped,  // the visitor has what it wanted
  kBound,    // there may be more
  kLarge,    // the next frame is too large to be decoded on the loop
  kDrained,  // the socket is empty
  kClosed,
  kBroken,  // what came is no frame
};

// What one turn of the loop may spend on the frames of one runner. A frame of up to kReadAtOnce bytes may be the last.
struct FramesPerTurn {
  int frames = 64;
  size_t bytes = size_t{128} << 10;
};
// Between two runs only a checkpoint and the answer to a question are due.
inline constexpr size_t kLargestAnswer = size_t{1} << 20;

// The only reader of a runner's frames. The visitor takes a frame and returns false to stop; descriptors that came
// beside it are still in the channel. kLarge puts the payload into `large`; without it a frame larger than an answer is
// none.
template <typename Visitor>
FramesEnd ReadFrames(runner::Channel& channel, FramesPerTurn at_most, std::string* large, Visitor&& visit) {
  for (size_t bytes = 0; at_most.frames > 0 && bytes < at_most.bytes; --at_most.frames) {
    auto arrival = channel.Receive();
    if (!arrival) return FramesEnd::kBroken;
    auto payload = channel.Next();
    if (!payload) {
      return *arrival == runner::Channel::Arrival::kClosed ? FramesEnd::kClosed : FramesEnd::kDrained;
    }
    bytes += payload->size();
    if (large != nullptr && payload->size() > kReadAtOnce) {
      large->assign(*payload);
      return FramesEnd::kLarge;
    }
    if (payload->size() > kLargestAnswer) return FramesEnd::kBroken;
    auto frame = runner::DecodeFrame(*payload);
    if (!frame) return FramesEnd::kBroken;
    if (!visit(std::move(*frame))) return FramesEnd::kStopped;
  }
  return FramesEnd::kBound;
}

}  // namespace cella::executor
