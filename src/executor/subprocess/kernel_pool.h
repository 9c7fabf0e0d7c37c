// Kernels made ahead of demand: whole sessions of which no client has used anything. Sized by what was asked for
// lately, up to a limit; given away once and never taken back. Filled by a task of its own, so Close it before it goes
// away. Lives on the loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "async/event.h"
#include "async/task_group.h"
#include "executor/subprocess/subprocess_guest.h"
#include "run/stop.h"

namespace cella::executor {

class KernelPool {
 public:
  using Make = std::function<async::Task<Result<std::unique_ptr<SubprocessGuest>>>(run::GuestSpec, run::StopToken)>;

  // `limit` kernels at most, of all kinds together.
  KernelPool(async::Loop& loop, size_t limit, Make make)
      : loop_(loop), limit_(limit), make_(std::move(make)), stop_(loop), tasks_(loop) {}

  // One that was made for such a session, if there is any. Counts as demand.
  async::Task<std::unique_ptr<SubprocessGuest>> Take(const run::GuestSpec& spec);

  size_t size() const;
  async::Task<void> Close();

 private:
  struct Kind {
    run::GuestSpec spec;
    std::deque<async::TimePoint> asked;
    std::deque<std::unique_ptr<SubprocessGuest>> ready;
  };

  size_t Demand(Kind& kind) const;
  async::Task<void> Tend();
  async::Task<bool> FillOne();
  async::Task<void> Empty(Kind kind);

  async::Loop& loop_;
  const size_t limit_;
  const Make make_;
  std::map<std::string, Kind> kinds_;
  run::StopSource stop_;
  async::TaskGroup tasks_;
  std::unique_ptr<async::Event> asked_;  // while Tend waits
  async::TimePoint quiet_at_;            // nothing is made before: a kernel that begins takes a processor
  bool tending_ = false;
  bool closing_ = false;
};

}  // namespace cella::executor
