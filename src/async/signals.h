// Termination signals of our own process, as something to await. The first one is for a clean end; a second one of
// the same kind has its default effect again.
#pragma once

#include <boost/asio/signal_set.hpp>

#include "async/task.h"

namespace cella::async {

class StopSignals {
 public:
  explicit StopSignals(Loop& loop) : StopSignals(loop, {SIGINT, SIGTERM, SIGHUP}) {}
  StopSignals(Loop& loop, std::initializer_list<int> signals);

  // The signal that came; nothing when cancelled.
  Task<std::optional<int>> Wait();
  // Likewise, but the next one comes here as well.
  Task<std::optional<int>> Next();

 private:
  boost::asio::signal_set signals_;
};

}  // namespace cella::async
