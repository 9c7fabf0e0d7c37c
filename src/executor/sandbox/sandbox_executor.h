// The default executor: every run in a jail of its own, and sessions that keep theirs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "confine/launch_context.h"
#include "executor/sandbox/session_pool.h"
#include "executor/sandbox/warm_environment.h"
#include "run/executor.h"

namespace cella::executor {

class SandboxExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor.
  explicit SandboxExecutor(confine::LaunchContext context, PoolLimits pool = {});

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

  async::Task<Status> Prepare(const run::GuestSpec& spec) override;
  run::Readiness readiness() const override;
  async::Task<void> Close() override;

  // The environment of such sessions, started if need be.
  async::Task<Result<std::shared_ptr<WarmEnvironment>>> WarmUp(const run::GuestSpec& spec, bool strict_memory);

 private:
  confine::LaunchContext context_;
  async::Gate planning_;
  async::Gate starting_;
  const bool forks_programs_;
  uint32_t plans_ = 0;
  struct Kept {
    std::shared_ptr<WarmEnvironment> environment;
    uint64_t used = 0;  // when it was asked for last, counted in requests
  };
  void MakeRoom();
  async::Task<Result<std::unique_ptr<run::Guest>>> OpenGuest(run::GuestSpec spec, const RunSpec* only,
                                                             std::string* no_fork);

  uint64_t asked_ = 0;
  std::map<std::string, Kept> environments_;  // by PlanKey
  SessionPool pool_;
};

}  // namespace cella::executor
