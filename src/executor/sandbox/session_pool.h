// Sessions made ahead of demand, in two stages: empty jails (shells), and whole sessions whose interpreter has been
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
#include "executor/sandbox/sandbox_session.h"
#include "executor/sandbox/shell.h"
#include "executor/sandbox/warm_environment.h"

namespace cella::executor {

// Of each kind of session; 0: none are kept.
struct PoolLimits {
  size_t shells = 0;
  size_t parked = 0;
};

class SessionPool {
 public:
  // What these refer to outlives the pool. Filling takes a place at the same gate as everyone else who starts sessions.
  SessionPool(LaunchContext& context, async::Gate& starting, PoolLimits limits)
      : context_(context), starting_(starting), limits_(limits), tasks_(context.loop) {}

  struct Recipe {
    std::shared_ptr<WarmEnvironment> warm;
    LimitPlan limits;
    SessionRequest request;
  };
  // Sessions of equal keys, without directories of their own, are interchangeable.
  std::string Key(const SessionRequest& request) const;

  // What there is of this kind, if anything. Counts as demand; `recipe` is for making more.
  std::unique_ptr<SandboxSession> TakeParked(const std::string& key, const Recipe& recipe);
  std::unique_ptr<Shell> TakeShell(const std::string& key, const WarmEnvironment* warm);

  Readiness readiness() const;
  async::Task<void> Close();

 private:
  struct Kind {
    Recipe recipe;
    std::deque<async::TimePoint> asked;
    std::deque<std::unique_ptr<Shell>> shells;
    std::deque<std::unique_ptr<SandboxSession>> parked;
  };

  size_t Demand(Kind& kind) const;
  async::Task<void> Tend();
  async::Task<bool> FillOne();
  async::Task<void> Empty(Kind kind);

  LaunchContext& context_;
  async::Gate& starting_;
  PoolLimits limits_;
  std::map<std::string, Kind> kinds_;
  async::TaskGroup tasks_;
  std::unique_ptr<async::Event> asked_;  // while Tend waits
  bool tending_ = false;
  bool closing_ = false;
};

}  // namespace cella::executor
