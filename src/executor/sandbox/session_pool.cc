#include "executor/sandbox/session_pool.h"

#include <algorithm>

#include "async/deadline.h"
#include "executor/sandbox/session_plan.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// Demand is what was asked for within this time; afterwards what was made ahead goes away.
constexpr auto kMemory = 30s;
// Between a request and the work of replacing what it took.
constexpr auto kCourtesy = 5ms;

std::string Number(double value) { return fmt::format("{};", value); }

}  // namespace

std::string SessionPool::Key(const SessionRequest& request) const {
  const Limits& limits = request.policy.limits;
  std::string key = PlanKey(context_, request, {});
  key += Number(static_cast<double>(limits.timeout.value.count()));
  key += Number(static_cast<double>(limits.cpu_time.value.count()));
  key += Number(static_cast<double>(limits.memory.value));
  key += Number(limits.cpus.value_or(0));
  key += Number(static_cast<double>(limits.pids.value));
  key += Number(static_cast<double>(limits.disk.value));
  key += Number(static_cast<double>(limits.open_files.value));
  key += Number(static_cast<double>(limits.output.value));
  for (const auto& [name, value] : request.policy.env) key += name + '\0' + value + '\0';
  key += ToString(request.checkpoint);
  key += request.policy.best_effort ? "b" : "-";
  return key;
}

size_t SessionPool::Demand(Kind& kind) const {
  const async::TimePoint oldest = async::Clock::now() - kMemory;
  while (!kind.asked.empty() && kind.asked.front() < oldest) kind.asked.pop_front();
  return kind.asked.size();
}

std::unique_ptr<SandboxSession> SessionPool::TakeParked(const std::string& key, const Recipe& recipe) {
  if (limits_.shells + limits_.parked == 0 || closing_) return nullptr;
  Kind& kind = kinds_[key];
  if (kind.recipe.warm != recipe.warm) {
    // Its environment changed since; what was made of the old one is of no use.
    if (kind.recipe.warm) tasks_.Add(Empty(std::exchange(kind, Kind{})));
    kind.recipe = recipe;
  }
  kind.asked.push_back(async::Clock::now());
  if (kind.asked.size() > limits_.shells + limits_.parked) kind.asked.pop_front();
  if (!std::exchange(tending_, true)) tasks_.Add(Tend());
  if (asked_) asked_->Set();
  while (!kind.parked.empty()) {
    std::unique_ptr<SandboxSession> session = std::move(kind.parked.front());
    kind.parked.pop_front();
    if (session->IsFresh()) return session;
    tasks_.Add(
        [](std::unique_ptr<SandboxSession> dead) -> async::Task<void> { co_await dead->Close(); }(std::move(session)));
  }
  return nullptr;
}

std::unique_ptr<Shell> SessionPool::TakeShell(const std::string& key, const WarmEnvironment* warm) {
  auto found = kinds_.find(key);
  if (found == kinds_.end() || found->second.recipe.warm.get() != warm) return nullptr;
  while (!found->second.shells.empty()) {
    std::unique_ptr<Shell> shell = std::move(found->second.shells.front());
    found->second.shells.pop_front();
    if (!shell->launch.ended()) return shell;
  }
  return nullptr;
}

// True when something was made, or tried and failed: then there may be more to do.
async::Task<bool> SessionPool::FillOne() {
  for (auto& [key, kind] : kinds_) {
    const size_t demand = Demand(kind);
    const bool wants_parked = kind.parked.size() < std::min(limits_.parked, demand);
    const bool wants_shell = kind.shells.size() < std::min(limits_.shells, demand);
    if (!wants_parked && !wants_shell) continue;
    const std::string wanted = key;
    Recipe recipe = kind.recipe;
    auto pass = co_await starting_.Enter();
    ShellLimits limits{recipe.limits, recipe.request.policy.limits.disk.value};
    auto shell = co_await recipe.warm->TakeShell(limits, recipe.request.policy);
    if (!shell) {
      // Whoever asks next is told why.
      if (auto failed = kinds_.find(wanted); failed != kinds_.end()) failed->second.asked.clear();
      co_return true;
    }
    if (!wants_parked) {
      auto still = kinds_.find(wanted);
      if (still != kinds_.end() && still->second.recipe.warm == recipe.warm) {
        still->second.shells.push_back(std::move(*shell));
      } else {
        co_await (*shell)->End();
      }
      co_return true;
    }
    auto session =
        co_await SandboxSession::Open(context_, recipe.warm, std::move(*shell), recipe.limits, recipe.request);
    if (session) co_await (*session)->Warm();
    auto still = kinds_.find(wanted);
    if (session && still != kinds_.end() && still->second.recipe.warm == recipe.warm) {
      still->second.parked.push_back(std::move(*session));
    } else if (session) {
      co_await (*session)->Close();
    } else if (still != kinds_.end()) {
      still->second.asked.clear();
    }
    co_return true;
  }
  co_return false;
}

async::Task<void> SessionPool::Tend() {
  while (!closing_ && !kinds_.empty()) {
    bool busy = co_await FillOne();
    if (busy) continue;
    // Nothing is asked for, nothing is kept.
    for (auto kind = kinds_.begin(); kind != kinds_.end();) {
      if (Demand(kind->second) > 0) {
        ++kind;
        continue;
      }
      tasks_.Add(Empty(std::move(kind->second)));
      kind = kinds_.erase(kind);
    }
    asked_ = std::make_unique<async::Event>(context_.loop);
    (void)co_await async::FirstOf(asked_->Wait(), async::SleepUntil(async::Clock::now() + kMemory));
    asked_.reset();
    // Whoever asked goes first.
    (void)co_await async::SleepUntil(async::Clock::now() + kCourtesy);
  }
  tending_ = false;
}

async::Task<void> SessionPool::Empty(Kind kind) {
  for (auto& session : kind.parked) co_await session->Close();
  for (auto& shell : kind.shells) co_await shell->End();
}

Readiness SessionPool::readiness() const {
  Readiness readiness;
  for (const auto& [key, kind] : kinds_) {
    readiness.shells += kind.shells.size();
    readiness.parked += kind.parked.size();
  }
  return readiness;
}

async::Task<void> SessionPool::Close() {
  closing_ = true;
  for (auto& [key, kind] : kinds_) tasks_.Add(Empty(std::move(kind)));
  kinds_.clear();
  if (asked_) asked_->Set();
  co_await tasks_.Join();
}

}  // namespace cella::executor
