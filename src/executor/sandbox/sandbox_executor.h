// The default executor: every run in a jail of its own, and sessions that keep theirs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "async/gate.h"
#include "executor/executor.h"
#include "executor/launch_context.h"
#include "executor/sandbox/session_pool.h"
#include "executor/sandbox/warm_environment.h"
#include "executor/session_guest.h"

namespace cella::executor {

class SandboxExecutor : public Executor {
 public:
  // What the context refers to outlives the executor.
  explicit SandboxExecutor(LaunchContext context, PoolLimits pool = {});

  async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) override;
  async::Task<Result<std::unique_ptr<SessionGuest>>> Open(SessionRequest request) override;

  async::Task<Status> Prepare(const SessionRequest& request) override;
  Readiness readiness() const override;
  async::Task<void> Close() override;

  // The environment of such sessions, started if need be.
  async::Task<Result<std::shared_ptr<WarmEnvironment>>> WarmUp(const SessionRequest& request, bool strict_memory);

 private:
  LaunchContext context_;
  async::Gate planning_;
  async::Gate starting_;
  uint32_t plans_ = 0;
  struct Kept {
    std::shared_ptr<WarmEnvironment> environment;
    uint64_t used = 0;  // when it was asked for last, counted in requests
  };
  void MakeRoom();

  uint64_t asked_ = 0;
  std::map<std::string, Kept> environments_;  // by PlanKey
  SessionPool pool_;
};

}  // namespace cella::executor
