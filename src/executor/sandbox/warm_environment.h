// One Python environment kept warm: a maker with the root tree, and in its world a zygote with the interpreter started
// and the packages imported. Shared by the sessions of one plan, whatever directories of the host they have; goes away
// with the last of them and the cache.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/gate.h"
#include "executor/launch_context.h"
#include "executor/sandbox/root_tree.h"
#include "executor/sandbox/session_plan.h"
#include "executor/sandbox/shell.h"
#include "executor/sandbox/zygote.h"

namespace cella::executor {

class WarmEnvironment {
 public:
  // Starts the maker; where none can be, the reason is in plan().no_fork and jails are built one by one. What the
  // context refers to outlives this. `importable`: which of the mounts are in the maker's tree.
  static async::Task<Result<std::shared_ptr<WarmEnvironment>>> Start(LaunchContext& context, SessionPlan plan,
                                                                     std::vector<MountPoint> points,
                                                                     std::vector<Mount> importable,
                                                                     std::vector<std::string> preload);

  const SessionPlan& plan() const { return plan_; }
  // The zygote's own, and thus what a newborn has: no variable that a policy names.
  const Environment& environment() const { return environment_; }
  bool forks() const { return maker_.has_value(); }
  // Its jails can be made: the maker, where there is one, lives.
  bool alive();
  // Its zygote serves.
  bool is_warm() const { return zygote_ && zygote_->alive(); }

  async::Task<Result<std::unique_ptr<Shell>>> TakeShell(const ShellLimits& limits, const Policy& policy);

  struct Newborn {
    std::shared_ptr<Zygote> zygote;
    Zygote::Newborn process;
  };
  // Forks the interpreter into the jail, whose entry is open. `stdio` and `session` become its descriptors. A zygote
  // that died is started anew, once.
  async::Task<Result<Newborn>> Fork(const Shell& shell, const LimitPlan& limits, std::span<const int, 3> stdio,
                                    int session);

  // Starts the zygote ahead of the first Fork.
  async::Task<Result<std::shared_ptr<Zygote>>> WarmUp();

 private:
  WarmEnvironment(LaunchContext& context, SessionPlan plan, std::vector<std::string> preload)
      : context_(context),
        plan_(std::move(plan)),
        environment_(plan_.EnvironmentFor(Policy{})),
        preload_(std::move(preload)),
        starting_(context.loop, 1) {}

  LaunchContext& context_;
  SessionPlan plan_;
  const Environment environment_;
  std::vector<std::string> preload_;
  std::vector<Mount> importable_;  // in the maker's tree
  std::optional<Launch> maker_;
  std::shared_ptr<Zygote> zygote_;
  async::Gate starting_;
};

}  // namespace cella::executor
