// A wake-up for one task: it waits, and others notify it that there is something to do. A notification while nothing
// waits is kept.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "async/task.h"

namespace cella::async {

class Notifier {
 public:
  explicit Notifier(Loop& loop) : timer_(loop.context(), TimePoint::max()) {}

  void Notify() {
    notified_ = true;
    timer_.cancel();
  }
  // False when cancelled.
  Task<bool> Wait();

 private:
  bool notified_ = false;
  boost::asio::steady_timer timer_;
};

}  // namespace cella::async
