#include "executor/sandbox/sandbox_executor.h"

#include <algorithm>
#include <thread>

#include "confine/limits.h"
#include "confine/workspace.h"
#include "executor/sandbox/program_guest.h"
#include "executor/sandbox/program_start.h"
#include "executor/sandbox/sandbox_guest.h"
#include "language/detect.h"

namespace cella::executor {
namespace {

constexpr size_t kMaxIdleEnvironments = 16;

}  // namespace

SandboxExecutor::SandboxExecutor(confine::LaunchContext context, PoolLimits pool)
    : context_(std::move(context)),
      planning_(context_.loop, 1),
      starting_(context_.loop, std::max(1u, std::thread::hardware_concurrency())),
      limits_(pool),
      pool_(context_, starting_, pool),
      tasks_(context_.loop) {
  context_.starting = &starting_;
  context_.guest_directories->Add(context_.host.guest_writable);
}

async::Task<Result<std::shared_ptr<WarmEnvironment>>> SandboxExecutor::WarmUp(const run::GuestSpec& spec,
                                                                              bool strict_memory) {
  CO_TRY_VOID(confine::CheckWorkdir(spec.policy.workdir));
  // One at a time: a waiting task finds what the one before has started.
  auto pass = co_await planning_.Enter();
  const std::vector<std::string> writable = GuestWritable(spec.policy);
  // With directories of the host in its very tree no other session could use it.
  auto importable = [&](const SessionPlan& plan) {
    return confine::ImportableMounts(spec.policy, !spec.preload.empty(), plan.module_paths);
  };
  auto is_shareable = [&](const SessionPlan& plan) { return !plan.Touches(writable) && importable(plan).empty(); };
  const std::vector<confine::MountPoint> points = confine::MountPointsOf(spec.policy);
  const std::string key = PlanKey(spec, points);
  auto found = environments_.find(key);
  bool prepared = false;
  if (found != environments_.end()) {
    const std::shared_ptr<WarmEnvironment> warm = found->second.environment;
    found->second.in_use = async::Clock::now();
    const bool is_good = warm->alive() && !warm->plan().Stale() && co_await warm->MayLoad();
    found = environments_.find(key);
    const bool still = found != environments_.end() && found->second.environment == warm;
    if (still && !is_good) {
      prepared = found->second.prepared;
      environments_.erase(found);
    } else if (still && is_shareable(warm->plan())) {
      found->second.used = ++asked_;
      co_return warm;
    }
  }
  auto make_plan = [&, number = ++plans_] { return PlanSession(context_, spec, strict_memory, number); };
  auto made = co_await context_.planning->Run(make_plan);
  CO_TRY(SessionPlan plan, std::move(made));
  // Of the interpreters; those of the policy are each session's own.
  auto visible = co_await confine::CheckHostShares(context_, confine::SharesOf(Policy{}, plan.visible));
  if (!visible) co_return std::unexpected(std::move(visible.error()));
  const bool shareable = is_shareable(plan) && !environments_.contains(key);
  if (shareable) CO_TRY_VOID(MakeRoomFor(spec.tenant));
  auto mounts = importable(plan);
  auto warm = co_await WarmEnvironment::Start(context_, std::move(plan), points, std::move(mounts), spec.preload);
  if (warm && shareable) {
    MakeRoom();
    environments_[key] = {*warm, spec.tenant.client, prepared, ++asked_, async::Clock::now()};
    // An executor that makes nothing ahead need not be closed, so that no task may be on.
    const bool tends = limits_.jails + limits_.parked > 0;
    if (tends && !std::exchange(tending_, true)) tasks_.Add(KeepEndingUnused());
  }
  co_return warm;
}

bool SandboxExecutor::IsIdle(const Kept& kept) const {
  return kept.environment.use_count() <= 1 + pool_.UsesOf(kept.environment.get());
}

// Of the idle ones, of this client if it is given. end(): all are in use.
SandboxExecutor::Environments::iterator SandboxExecutor::LongestUnused(const std::string* client) {
  auto oldest = environments_.end();
  for (auto entry = environments_.begin(); entry != environments_.end(); ++entry) {
    if (client != nullptr && entry->second.client != *client) continue;
    if (!IsIdle(entry->second)) continue;
    if (oldest == environments_.end() || entry->second.used < oldest->second.used) oldest = entry;
  }
  return oldest;
}

void SandboxExecutor::End(Environments::iterator entry) {
  pool_.Forget(entry->second.environment.get());
  environments_.erase(entry);
}

void SandboxExecutor::MakeRoom() {
  while (environments_.size() >= kMaxIdleEnvironments) {
    auto oldest = LongestUnused(nullptr);
    if (oldest == environments_.end()) return;
    End(oldest);
  }
}

Status SandboxExecutor::MakeRoomFor(const run::Tenant& tenant) {
  if (tenant.client.empty() || !tenant.interpreters) return {};
  const auto is_theirs = [&](const auto& entry) { return entry.second.client == tenant.client; };
  while (static_cast<uint64_t>(std::ranges::count_if(environments_, is_theirs)) >= *tenant.interpreters) {
    auto oldest = LongestUnused(&tenant.client);
    if (oldest == environments_.end()) {
      return Err(ErrorCode::kExhausted,
                 "your sessions use {} interpreters with packages or preloaded modules of your choice, and no more are "
                 "yours: use fewer environments, or end the sessions of one",
                 *tenant.interpreters);
    }
    End(oldest);
  }
  return {};
}

void SandboxExecutor::EndUnused() {
  const async::TimePoint now = async::Clock::now();
  for (auto entry = environments_.begin(); entry != environments_.end();) {
    const auto next = std::next(entry);
    Kept& kept = entry->second;
    if (!IsIdle(kept)) kept.in_use = now;
    if (!kept.prepared && kept.in_use + limits_.idle <= now) End(entry);
    entry = next;
  }
}

async::Task<void> SandboxExecutor::KeepEndingUnused() {
  constexpr int kLooks = 4;  // while one is idle
  while (true) {
    const bool slept = co_await async::SleepUntil(async::Clock::now() + limits_.idle / kLooks);
    if (!slept) co_return;
    EndUnused();
  }
}

async::Task<Result<std::unique_ptr<run::Guest>>> SandboxExecutor::Open(run::GuestSpec spec, const RunSpec* only,
                                                                       run::StopToken) {
  CO_TRY_VOID(co_await confine::NoteGuestDirectories(context_, spec.policy));
  if (only == nullptr || only->as != RunAs::kProgram) co_return co_await OpenGuest(std::move(spec), only, nullptr);
  if (!limits_.forks_programs) co_return co_await OpenProgramGuest(context_, std::move(spec), *only);
  if (only->blocks.size() != 1) co_return Err(ErrorCode::kInvalid, "one program is one block: use a session");
  const Block& block = only->blocks.front();
  auto language =
      language::Detect(context_.table, {.language = block.language, .file_name = only->file, .code = block.code});
  if (!language) co_return std::unexpected(std::move(language.error()));
  std::string why = (*language)->name == "python" ? WhyExec(spec.policy, *only) : "not Python";
  if (why.empty()) {
    auto guest = co_await OpenGuest(spec, only, &why);
    // A program that cannot be forked may still be started: whatever is wrong then is told by that.
    if (guest) co_return std::move(*guest);
    if (why.empty()) why = guest.error().message;
  }
  co_return co_await OpenProgramGuest(context_, std::move(spec), *only, "exec: " + why);
}

// For one program (`only`): an empty jail; kUnsupported, with the reason in *no_fork, where there is no zygote for it.
async::Task<Result<std::unique_ptr<run::Guest>>> SandboxExecutor::OpenGuest(run::GuestSpec spec, const RunSpec* only,
                                                                            std::string* no_fork) {
  const bool program = only != nullptr && only->as == RunAs::kProgram;
  const Policy& policy = spec.policy;
  const bool private_workspace = policy.workdir.empty();
  const confine::LimitContext machine =
      confine::ObserveMachine(context_.cgroups, confine::Confinement::kJail, private_workspace);
  CO_TRY(confine::LimitPlan limits,
         program ? confine::PlanLimits(policy, machine) : confine::PlanSessionLimits(policy, machine));
  auto shareable = co_await confine::CheckHostShares(context_, confine::SharesOf(policy));
  if (!shareable) co_return std::unexpected(std::move(shareable.error()));
  auto warm = co_await WarmUp(spec, limits.strict_memory);
  if (!warm) co_return std::unexpected(std::move(warm.error()));
  if (program && !(*warm)->forks()) {
    *no_fork = (*warm)->plan().no_fork;
    co_return Err(ErrorCode::kUnsupported, "{}", *no_fork);
  }
  std::unique_ptr<confine::EmptyJail> jail;
  if (IsInterchangeable(spec)) {
    const std::string key = PoolKey(spec) + (program ? "program" : "");
    const SessionPool::Recipe recipe{*warm, limits, spec, !program};
    std::unique_ptr<run::Guest> parked = pool_.TakeParked(key, recipe);
    if (parked) co_return std::move(parked);
    jail = pool_.TakeEmptyJail(key, warm->get());
  }
  // More at once would only make each of them slower.
  auto pass = co_await starting_.Enter();
  if (!jail) {
    confine::EmptyJailLimits jail_limits{limits, policy.limits.disk.value};
    auto made = co_await (*warm)->TakeEmptyJail(jail_limits, policy);
    if (!made) co_return std::unexpected(std::move(made.error()));
    jail = std::move(*made);
  }
  auto guest = co_await SandboxGuest::Open(context_, *warm, std::move(jail), std::move(limits), std::move(spec), only);
  if (!guest) co_return std::unexpected(std::move(guest.error()));
  co_return std::unique_ptr<run::Guest>(std::move(*guest));
}

async::Task<Status> SandboxExecutor::Prepare(const run::GuestSpec& spec) {
  CO_TRY_VOID(co_await confine::NoteGuestDirectories(context_, spec.policy));
  const bool private_workspace = spec.policy.workdir.empty();
  CO_TRY(confine::LimitPlan limits,
         confine::PlanSessionLimits(
             spec.policy, confine::ObserveMachine(context_.cgroups, confine::Confinement::kJail, private_workspace)));
  auto warm = co_await WarmUp(spec, limits.strict_memory);
  if (!warm) co_return std::unexpected(std::move(warm.error()));
  if (!(*warm)->forks()) co_return Status{};
  auto zygote = co_await (*warm)->WarmUp();
  if (!zygote) co_return std::unexpected(std::move(zygote.error()));
  for (auto& [key, kept] : environments_) kept.prepared = kept.prepared || kept.environment == *warm;
  co_return Status{};
}

run::Readiness SandboxExecutor::readiness() const {
  run::Readiness readiness = pool_.readiness();
  for (const auto& [key, kept] : environments_) readiness.zygotes += kept.environment->is_warm() ? 1 : 0;
  return readiness;
}

async::Task<void> SandboxExecutor::Close() {
  tasks_.Cancel();
  co_await tasks_.Join();
  co_await pool_.Close();
}

}  // namespace cella::executor
