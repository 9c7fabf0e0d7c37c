// The vocabulary of concurrency: one loop, coroutines on it, structured groups, deadlines. Everything runs on the
// loop's thread, so code above needs no locks; cancellation arrives as an early return from the awaited operation.
// A Task does nothing until it is awaited, run, or added to a TaskGroup.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace cella::async {

template <typename T>
using Task = boost::asio::awaitable<T>;

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

class Loop {
 public:
  boost::asio::io_context& context() { return context_; }

  // Runs the task to its end on this thread. Exceptions of third-party code leave through here.
  template <typename T>
  T Run(Task<T> task);

 private:
  boost::asio::io_context context_{1};
};

// Sleeps; false when cancelled.
Task<bool> SleepUntil(TimePoint when);

// Lets those go first whose turn has come. As after every await here, a cancelled task goes on and is told by what it
// awaits.
Task<void> Yield();

}  // namespace cella::async

#include "async/task_inl.h"
