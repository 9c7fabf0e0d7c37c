// One end of the socket to a runner: frames out, frames and descriptors in, every size bounded. The reader never waits;
// the owner of the channel waits for fd(), on the loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::runner {

class Channel {
 public:
  Channel() = default;
  // A stream socket, which becomes non-blocking. kInvalid: it is something else (a guest may send us anything).
  static Result<Channel> Open(UniqueFd socket);

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  // Sends one payload, waiting for room. kClosed: the runner is gone.
  async::Task<Status> Send(async::Loop& loop, std::string_view payload, async::TimePoint deadline);
  // A small payload, at once or not at all: false where there is no room, or another one is half sent.
  bool SendNow(std::string_view payload);
  // The runner has not read all that it was sent.
  bool HasUnread() const;

  enum class Arrival { kSome, kNothing, kClosed };
  // Takes some of what has arrived. kInvalid: this is no runner.
  Result<Arrival> Receive();
  // The next whole payload; valid until the next call of a non-const function.
  std::optional<std::string_view> Next();
  // The oldest descriptor that came along; empty: none.
  UniqueFd TakeDescriptor();

 private:
  UniqueFd socket_;
  // A part of a payload is out, and the rest is not. Shared with the task that sends it, which may live longer than
  // this.
  std::shared_ptr<bool> half_sent_;
  std::string buffer_;
  size_t consumed_ = 0;
  std::deque<UniqueFd> descriptors_;
};

}  // namespace cella::runner
