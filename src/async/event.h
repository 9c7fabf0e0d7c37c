// A flag that tasks wait for. Set once; every task that waits, now or later, goes on.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "async/task.h"

namespace cella::async {

class Event {
 public:
  explicit Event(Loop& loop) : timer_(loop.context(), TimePoint::max()) {}

  void Set() {
    set_ = true;
    timer_.cancel();
  }
  bool is_set() const { return set_; }

  // False when cancelled before it was set.
  Task<bool> Wait();

 private:
  bool set_ = false;
  boost::asio::steady_timer timer_;
};

}  // namespace cella::async
