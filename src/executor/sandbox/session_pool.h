// Sessions made ahead of demand, in two stages: empty jails, and whole sessions whose interpreter has been
// forked and has run an empty cell (parked). Sized by what was asked for lately, up to a limit; given away once and
// never taken back. Filled by a task of its own, so Close it before it goes away.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/gate.h"
#include "async/task_group.h"
#include "confine/empty_jail.h"
#include "executor/sandbox/pool_limits.h"
#include "executor/sandbox/sandbox_guest.h"
#include "executor/sandbox/warm_environment.h"

namespace cella::executor {

class SessionPool {
 public:
  // What these refer to outlives the pool. Filling takes a place at the gate that every start of a session takes.
  SessionPool(confine::LaunchContext& context, async::Gate& starting, PoolLimits limits)
      : context_(context), starting_(starting), limits_(limits), tasks_(context.loop) {}

  struct Recipe {
    std::shared_ptr<WarmEnvironment> warm;
    confine::LimitPlan limits;
    run::GuestSpec spec;
    bool parks = true;  // false: only empty jails are of use
  };

  // What there is of this kind (PoolKey), if anything. Counts as demand; `recipe` is for making more.
  std::unique_ptr<SandboxGuest> TakeParked(const std::string& key, const Recipe& recipe);
  std::unique_ptr<confine::EmptyJail> TakeEmptyJail(const std::string& key, const WarmEnvironment* warm);

  // How often this pool holds the environment.
  long UsesOf(const WarmEnvironment* warm) const;
  // Ends what was made of it.
  void Forget(const WarmEnvironment* warm);

  run::Readiness readiness() const;
  async::Task<void> Close();

 private:
  struct Kind {
    Recipe recipe;
    std::deque<async::TimePoint> asked;
    std::deque<std::unique_ptr<confine::EmptyJail>> jails;
    std::deque<std::unique_ptr<SandboxGuest>> parked;
  };

  size_t Demand(Kind& kind) const;
  async::Task<void> Tend();
  async::Task<bool> FillOne();
  async::Task<void> Empty(Kind kind);

  confine::LaunchContext& context_;
  async::Gate& starting_;
  PoolLimits limits_;
  std::map<std::string, Kind> kinds_;
  async::TaskGroup tasks_;
  std::unique_ptr<async::Event> asked_;  // while Tend waits
  bool tending_ = false;
  bool closing_ = false;
};

}  // namespace cella::executor
