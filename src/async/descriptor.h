// Waiting for descriptors on the loop. One that is ours alone is made non-blocking: a guest at the other end may change
// its mind between "ready" and our call. One that we share with other processes (our standard streams) keeps its flags,
// since every process that holds it shares them.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <span>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::async {

enum class Sharing { kOurs, kShared };

struct Opened {
  UniqueFd fd;  // empty: `fd` is not open
  Sharing sharing = Sharing::kShared;
};

// Another descriptor for what `fd` is: a terminal or a pipe is opened anew (O_RDONLY or O_WRONLY), so that it can be
// made non-blocking without changing that for the processes that share it. Anything else is duplicated.
Opened OpenPrivately(int fd, int access);

class Descriptor {
 public:
  // Owns the descriptor; `sharing` is about the description behind it. Where the kernel refuses one more epoll watch,
  // which guests of our own user may have taken, waits ask for readiness again and again instead of failing.
  Descriptor(Loop& loop, UniqueFd fd, Sharing sharing);
  Descriptor(Descriptor&&) = default;

  int fd() { return unwatched_ ? unwatched_.get() : descriptor_.native_handle(); }
  bool is_open() const { return unwatched_ || descriptor_.is_open(); }
  void Close();

  // True when readable (or at its end), false when cancelled.
  Task<bool> Readable();
  // The same for writing.
  Task<bool> Writable();

  // Ends the waits that are on, as if they were cancelled.
  void StopWaiting();

  // Bytes read; 0 at the end or when cancelled.
  Task<Result<size_t>> ReadSome(std::span<char> buffer);

  // Writes everything, waiting for room; kClosed when the reader went away.
  Task<Status> WriteAll(std::string_view bytes);

 private:
  void Watch();
  Task<bool> Poll(short events);

  boost::asio::posix::stream_descriptor descriptor_;
  UniqueFd unwatched_;    // while the kernel has no watch for it
  TimePoint next_try_{};  // to get a watch: Asio keeps a little memory for each that failed
  uint64_t stops_ = 0;
};

}  // namespace cella::async
