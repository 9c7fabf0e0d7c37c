// Waiting for several descriptors, a point in time and a call at once, with one wait on the loop: for a conversation
// with many sides, where racing a task for each would cost more than the work itself. Level-triggered; a descriptor is
// borrowed and must be removed before it closes. Used by one task at a time.
#pragma once

#include <array>
#include <span>

#include "async/descriptor.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::async {

class ReadySet {
 public:
  static Result<ReadySet> Create(Loop& loop);
  ReadySet(ReadySet&&) = default;

  // `key` is the caller's name for it, not negative. Works also where the kernel refuses one more epoll watch, which
  // guests of our own user may have taken.
  Status Add(int fd, int key);
  void Remove(int fd);

  // When Wait returns at the latest; TimePoint::max(): never.
  void SetDeadline(TimePoint deadline);
  // Ends the wait that is on, or the next one.
  void Wake();

  // The keys of what is readable (or at its end); empty at the deadline, after Wake, or when cancelled.
  Task<std::span<const int>> Wait();

 private:
  struct Polled {
    int fd;
    int key;
  };
  // Appends the keys of what is readable without a watch.
  size_t TakePolled(size_t count);

  ReadySet(Loop& loop, UniqueFd epoll, UniqueFd timer);

  Descriptor epoll_;
  UniqueFd timer_;
  bool woken_ = false;
  TimePoint deadline_ = TimePoint::max();
  std::array<int, 8> keys_{};
  unsigned at_once_ = 0;
  std::vector<Polled> polled_;  // the kernel had no watch for these: they are asked again and again
};

}  // namespace cella::async
