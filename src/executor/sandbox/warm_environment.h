// One Python environment kept warm: a maker with the root tree, and in its world a zygote with the interpreter started
// and the packages imported. Shared by the sessions of one plan, whatever directories of the host they have; goes away
// with the last of them and the cache.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/gate.h"
#include "confine/empty_jail.h"
#include "confine/launch_context.h"
#include "confine/root_tree.h"
#include "executor/sandbox/session_plan.h"
#include "executor/sandbox/zygote.h"
#include "os/cgroup.h"

namespace cella::executor {

class WarmEnvironment {
 public:
  // Starts the maker; where none can be, the reason is in plan().no_fork and jails are built one by one. What the
  // context refers to outlives this. `importable`: which of the mounts are in the maker's tree.
  static async::Task<Result<std::shared_ptr<WarmEnvironment>>> Start(confine::LaunchContext& context, SessionPlan plan,
                                                                     std::vector<confine::MountPoint> points,
                                                                     std::vector<Mount> importable,
                                                                     std::vector<std::string> preload);

  const SessionPlan& plan() const { return plan_; }
  // The zygote's own, and thus what a newborn has: no variable that a policy names.
  const confine::EnvVars& environment() const { return environment_; }
  bool forks() const { return maker_.has_value(); }
  // Its jails can be made: the maker, where there is one, lives.
  bool alive();
  // No guest may have written to what its zygote loads, or would load once more.
  async::Task<bool> MayLoad();
  // Its zygote serves.
  bool is_warm() const { return zygote_ && zygote_->alive(); }

  async::Task<Result<std::unique_ptr<confine::EmptyJail>>> TakeEmptyJail(const confine::EmptyJailLimits& limits,
                                                                         const Policy& policy);

  struct Newborn {
    std::shared_ptr<Zygote> zygote;
    Zygote::Newborn process;
  };
  // Forks the interpreter into the jail, whose entry is open. `stdio` and `session` become its descriptors. A zygote
  // that died is started anew, once.
  async::Task<Result<Newborn>> Fork(const confine::EmptyJail& jail, const confine::LimitPlan& limits,
                                    std::span<const int, 3> stdio, int session);

  // Starts the zygote ahead of the first Fork.
  async::Task<Result<std::shared_ptr<Zygote>>> WarmUp();

 private:
  WarmEnvironment(confine::LaunchContext& context, SessionPlan plan, std::vector<std::string> preload)
      : context_(context),
        plan_(std::move(plan)),
        environment_(plan_.EnvVarsFor(Policy{})),
        preload_(std::move(preload)),
        starting_(context.loop, 1) {}

  confine::LaunchContext& context_;
  SessionPlan plan_;
  const confine::EnvVars environment_;
  std::vector<std::string> preload_;
  std::vector<Mount> importable_;  // in the maker's tree
  os::Cgroup cgroup_;              // of the zygote; removed after what is in it is gone
  std::optional<confine::Maker> maker_;
  std::shared_ptr<Zygote> zygote_;
  async::Gate starting_;
};

}  // namespace cella::executor
