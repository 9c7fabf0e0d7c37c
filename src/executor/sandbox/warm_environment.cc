#include "executor/sandbox/warm_environment.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cella::executor {

async::Task<Result<std::shared_ptr<WarmEnvironment>>> WarmEnvironment::Start(LaunchContext& context, SessionPlan plan,
                                                                             std::vector<MountPoint> points,
                                                                             std::vector<Mount> importable,
                                                                             std::vector<std::string> preload) {
  std::shared_ptr<WarmEnvironment> warm(new WarmEnvironment(context, std::move(plan), std::move(preload)));
  if (!warm->plan_.no_fork.empty()) co_return warm;
  CO_TRY(Launch maker, context.TakeLaunch());
  JailSpecBuilder builder = warm->plan_.tree;
  builder.spec().flags |= jail::kMaker;
  CO_TRY_VOID(AddMounts(importable, &builder));
  std::erase_if(points, [&](const MountPoint& point) {
    return std::ranges::find(importable, point.target, &Mount::target) != importable.end();
  });
  CO_TRY_VOID(AddMountPoints(points, &builder));
  warm->importable_ = std::move(importable);
  CO_TRY_VOID(maker.Build(builder, os::Cgroup()));
  auto ready = co_await maker.WaitReady(Confinement::kJail);
  if (ready) {
    maker.ReapLauncher();
    warm->maker_.emplace(std::move(maker));
  } else if (ready.error().sys_errno == ENOTSUP) {
    // Container engines mask parts of /proc, and then the kernel allows no fresh one for the maker.
    warm->plan_.no_fork = "/proc is masked here";
  } else {
    co_return std::unexpected(std::move(ready.error()));
  }
  co_return warm;
}

bool WarmEnvironment::alive() { return !maker_ || !maker_->ended(); }

async::Task<Result<std::unique_ptr<Shell>>> WarmEnvironment::TakeShell(const ShellLimits& limits,
                                                                       const Policy& policy) {
  if (maker_) {
    auto shell = co_await MakeShell(context_, plan_, *maker_, limits, Without(policy, importable_));
    co_return shell;
  }
  auto shell = co_await BuildShell(context_, plan_, limits, policy);
  co_return shell;
}

async::Task<Result<std::shared_ptr<Zygote>>> WarmEnvironment::WarmUp() {
  auto pass = co_await starting_.Enter();
  if (zygote_ && zygote_->alive()) co_return zygote_;
  const SessionPlan::Interpreter& python = plan_.interpreters.at("python");
  ExecRequest request;
  request.program = python.argv.front();
  request.argv = python.argv;
  nlohmann::json options = {{"preload", preload_}};
  request.argv.insert(request.argv.end(), {"--zygote", std::to_string(jail::kControlFd),
                                           std::string(kRunnersInside) + "/libcella_fork.so", options.dump()});
  request.env = environment_.Encode();
  CO_TRY(UniqueFd control, maker_->Spawn(request));
  auto zygote = co_await Zygote::Connect(context_.loop, std::move(control));
  if (zygote) zygote_ = *zygote;
  co_return zygote;
}

async::Task<Result<WarmEnvironment::Newborn>> WarmEnvironment::Fork(const Shell& shell, const LimitPlan& limits,
                                                                    std::span<const int, 3> stdio, int session) {
  CO_TRY(CgroupDoors doors, DoorsOf(shell.cgroup));
  jail::ForkSpec spec = {};
  spec.has_ruleset = shell.ready.landlock_abi > 0 ? 1 : 0;
  if (shell.ready.entry.size() < 2 + spec.has_ruleset) {
    co_return Err(ErrorCode::kInternal, "the jail did not show the way in");
  }
  spec.namespace_count = static_cast<uint32_t>(shell.ready.entry.size()) - spec.has_ruleset;
  spec.strict_memory = limits.strict_memory ? 1 : 0;
  spec.limits = limits.exec;
  std::vector<int> fds = {session, stdio[0], stdio[1], stdio[2]};
  for (const UniqueFd& way : shell.ready.entry) fds.push_back(way.get());
  spec.cgroup_count = static_cast<uint32_t>(doors.fds.size());
  fds.insert(fds.end(), doors.fds.begin(), doors.fds.end());

  for (int attempt = 0;; ++attempt) {
    auto zygote = co_await WarmUp();
    if (!zygote) co_return std::unexpected(std::move(zygote.error()));
    auto process = co_await (*zygote)->Fork(spec, fds);
    if (process) co_return Newborn{std::move(*zygote), std::move(*process)};
    if (process.error().code != ErrorCode::kClosed || attempt > 0)
      co_return std::unexpected(std::move(process.error()));
  }
}

}  // namespace cella::executor
