// The points in time of all connections, watched by one timer. Moving a deadline to later costs nothing, since the
// timer is only set anew when something becomes due before it; with a timer per connection every request would pay two
// system calls. Coarse: a deadline may be noticed a few hundredths of a second late. Internal to http.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <vector>

#include "async/task.h"

namespace cella::http {

class Deadlines;

// Something with deadlines; on the list of a Deadlines from its making to its end.
class Watched {
 public:
  explicit Watched(Deadlines* deadlines);
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  void SetReadDeadline(async::TimePoint when);
  void SetWriteDeadline(async::TimePoint when);
  void ClearReadDeadline() { read_deadline_ = async::TimePoint::max(); }
  void ClearWriteDeadline() { write_deadline_ = async::TimePoint::max(); }

 protected:
  virtual ~Watched();
  // Called once per deadline, which is then cleared.
  virtual void OnReadDeadline() = 0;
  virtual void OnWriteDeadline() = 0;

 private:
  friend class Deadlines;

  Deadlines* deadlines_;  // none: not watched
  size_t index_ = 0;
  async::TimePoint read_deadline_ = async::TimePoint::max();
  async::TimePoint write_deadline_ = async::TimePoint::max();
};

class Deadlines {
 public:
  explicit Deadlines(async::Loop& loop) : timer_(loop.context(), async::TimePoint::max()) {}

  // Watches until Stop.
  async::Task<void> Run();
  void Stop();

 private:
  friend class Watched;

  void NoticeBefore(async::TimePoint when);
  void Sweep();

  boost::asio::steady_timer timer_;
  async::TimePoint armed_ = async::TimePoint::max();
  std::vector<Watched*> watched_;
  bool stopped_ = false;
};

}  // namespace cella::http
