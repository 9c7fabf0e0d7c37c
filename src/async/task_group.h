// Tasks that live and end together. Every task that was added has ended when Join returns; the group must outlive its
// tasks, so join it before it goes out of scope (a group that still has tasks then ends the program: they would go on
// in freed memory).
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <list>

#include "async/task.h"

namespace cella::async {

class TaskGroup {
 public:
  explicit TaskGroup(Loop& loop) : loop_(loop), done_(loop.context(), TimePoint::max()) {}
  ~TaskGroup() {
    if (!running_.empty()) std::terminate();
  }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  void Add(Task<void> task);

  // Asks every task to stop; they end at their next wait.
  void Cancel();

  // Waits until all tasks have ended; rethrows the first exception that one of them left with.
  Task<void> Join();

 private:
  Loop& loop_;
  boost::asio::steady_timer done_;
  std::list<boost::asio::cancellation_signal> running_;
  std::exception_ptr failure_;
};

}  // namespace cella::async
