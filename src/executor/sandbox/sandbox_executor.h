// The default executor: every run in a jail of its own, and sessions that keep theirs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "async/task_group.h"
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
  uint32_t plans_ = 0;
  struct Kept {
    std::shared_ptr<WarmEnvironment> environment;
    std::string client;         // whose it is alone (run::Tenant); empty: it is shared
    bool prepared = false;      // it stays while no session uses it
    uint64_t used = 0;          // when it was asked for last, counted in requests
    async::TimePoint in_use{};  // when it was last seen in use, or asked for
  };
  using Environments = std::map<std::string, Kept>;
  // No session uses it, but for those that the pool made ahead.
  bool IsIdle(const Kept& kept) const;
  Environments::iterator LongestUnused(const std::string* client);
  void End(Environments::iterator entry);
  void MakeRoom();
  Status MakeRoomFor(const run::Tenant& tenant);
  void EndUnused();
  async::Task<void> KeepEndingUnused();
  async::Task<Result<std::unique_ptr<run::Guest>>> OpenGuest(run::GuestSpec spec, const RunSpec* only,
                                                             std::string* no_fork);

  uint64_t asked_ = 0;
  Environments environments_;  // by PlanKey
  const PoolLimits limits_;
  bool tending_ = false;
  SessionPool pool_;
  async::TaskGroup tasks_;
};

}  // namespace cella::executor
