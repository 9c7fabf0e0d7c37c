#include "executor/sandbox/warm_environment.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace cella::executor {
namespace {

// For the largest packages, and for what a hostile one of them could take. Guests are charged to groups of their own.
constexpr uint64_t kZygoteMemory = uint64_t{4} << 30;
constexpr uint64_t kZygoteProcesses = 128;  // newborns on their way into their jails, in the worst case

os::CgroupLimits ZygoteLimits(const os::CgroupHost& host) {
  os::CgroupLimits limits;
  if (host.has_memory()) limits.memory = kZygoteMemory;
  if (host.has_pids()) limits.pids = kZygoteProcesses;
  return limits;
}

uint64_t PhysicalMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

async::Task<Result<std::shared_ptr<WarmEnvironment>>> WarmEnvironment::Start(confine::LaunchContext& context,
                                                                             SessionPlan plan,
                                                                             std::vector<confine::MountPoint> points,
                                                                             std::vector<Mount> importable,
                                                                             std::vector<std::string> preload) {
  std::shared_ptr<WarmEnvironment> warm(new WarmEnvironment(context, std::move(plan), std::move(preload)));
  if (!warm->plan_.no_fork.empty()) co_return warm;
  CO_TRY(confine::Launcher launcher, context.TakeLauncher());
  confine::JailSpecBuilder builder = warm->plan_.tree;
  CO_TRY_VOID(confine::AddMounts(importable, &builder));
  std::erase_if(points, [&](const confine::MountPoint& point) {
    return std::ranges::find(importable, point.target, &Mount::target) != importable.end();
  });
  CO_TRY_VOID(confine::AddMountPoints(points, &builder));
  warm->importable_ = std::move(importable);
  CO_TRY(confine::Maker maker, std::move(launcher).BuildMaker(builder));
  auto ready = co_await maker.WaitReady();
  if (ready) {
    warm->maker_.emplace(std::move(maker));
  } else if (ready.error().sys_errno == ENOTSUP) {
    // Container engines mask parts of /proc, and then the kernel allows no fresh one for the maker.
    warm->plan_.no_fork = "/proc is masked here";
  } else {
    co_return std::unexpected(std::move(ready.error()));
  }
  co_return warm;
}

async::Task<bool> WarmEnvironment::MayLoad() {
  if (!forks() || context_.guest_directories->version() == plan_.guests_known) co_return true;
  const language::GuestDirectories::Snapshot guests = context_.guest_directories->Take();
  auto check = [&]() -> Result<bool> {
    return language::WhyUntrusted(plan_.code, guests, language::Below::kIsKnown).empty();
  };
  auto trusted = co_await context_.planning->Run(check);
  if (!trusted || !*trusted) co_return false;
  plan_.guests_known = guests.version;
  co_return true;
}

bool WarmEnvironment::alive() { return !maker_ || !maker_->ended(); }

async::Task<Result<std::unique_ptr<confine::EmptyJail>>> WarmEnvironment::TakeEmptyJail(
    const confine::EmptyJailLimits& limits, const Policy& policy) {
  if (maker_) {
    auto jail = co_await confine::MakeEmptyJail(context_, plan_.identity, *maker_, limits,
                                                confine::Without(policy, importable_));
    co_return jail;
  }
  auto jail = co_await confine::BuildEmptyJail(context_, plan_.tree, limits, policy);
  co_return jail;
}

async::Task<Result<std::shared_ptr<Zygote>>> WarmEnvironment::WarmUp() {
  auto pass = co_await starting_.Enter();
  if (zygote_ && zygote_->alive()) co_return zygote_;
  // Its code may have been given to guests since the plan was made.
  bool may_load = co_await MayLoad();
  if (!may_load) co_return Err(ErrorCode::kClosed, "guests may write to the session's environment now: open a new one");
  const SessionPlan::Interpreter& python = plan_.interpreters.at("python");
  confine::ExecRequest request;
  request.program = python.argv.front();
  request.argv = python.argv;
  nlohmann::json options = {{"preload", preload_}};
  request.argv.insert(request.argv.end(), {"--zygote", std::to_string(jail::kControlFd),
                                           std::string(confine::kRunnersInside) + "/libcella_fork.so", options.dump()});
  request.env = environment_.Encode();
  // Inherited by guests, whose own limit can only be lower: only where no group counts.
  if (!context_.cgroups.has_memory()) request.limits.data_bytes = PhysicalMemory();
  zygote_.reset();
  cgroup_ = os::Cgroup();
  CO_TRY(cgroup_, context_.MakeCgroup(ZygoteLimits(context_.cgroups)));
  CO_TRY(confine::JoinFds join_fds, confine::JoinFdsOf(cgroup_));
  CO_TRY(UniqueFd control, maker_->Spawn(request, join_fds.fds));
  cgroup_.CloseJoinFds();
  auto zygote = co_await Zygote::Connect(context_.loop, std::move(control));
  if (zygote) {
    zygote_ = *zygote;
  } else if (auto usage = cgroup_.Usage(); usage && usage->oom_kills.value_or(0) > 0) {
    co_return Err(ErrorCode::kUnsupported,
                  "importing what sessions share took more than {} of memory: preload less, and import in each session",
                  FormatByteSize(kZygoteMemory));
  }
  co_return zygote;
}

async::Task<Result<WarmEnvironment::Newborn>> WarmEnvironment::Fork(const confine::EmptyJail& jail,
                                                                    const confine::LimitPlan& limits,
                                                                    std::span<const int, 3> stdio, int session) {
  CO_TRY(confine::JoinFds join_fds, confine::JoinFdsOf(jail.cgroup));
  jail::ForkSpec spec = {};
  spec.has_ruleset = jail.ready.landlock_abi > 0 ? 1 : 0;
  if (jail.ready.entry.size() < 2 + spec.has_ruleset) {
    co_return Err(ErrorCode::kInternal, "the jail did not show the way in");
  }
  spec.namespace_count = static_cast<uint32_t>(jail.ready.entry.size()) - spec.has_ruleset;
  spec.strict_memory = limits.strict_memory ? 1 : 0;
  spec.limits = limits.exec;
  std::vector<int> fds = {session, stdio[0], stdio[1], stdio[2]};
  for (const UniqueFd& way : jail.ready.entry) fds.push_back(way.get());
  spec.cgroup_count = static_cast<uint32_t>(join_fds.fds.size());
  fds.insert(fds.end(), join_fds.fds.begin(), join_fds.fds.end());

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
