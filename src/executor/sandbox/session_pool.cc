#include "executor/sandbox/session_pool.h"

#include <algorithm>

#include "async/deadline.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// Demand is what was asked for within this time; afterwards what was made ahead goes away.
constexpr auto kMemory = 30s;
// Between a request and the work of replacing what it took.
constexpr auto kCourtesy = 5ms;

}  // namespace

size_t SessionPool::Demand(Kind& kind) const {
  const async::TimePoint oldest = async::Clock::now() - kMemory;
  while (!kind.asked.empty() && kind.asked.front() < oldest) kind.asked.pop_front();
  return kind.asked.size();
}

std::unique_ptr<SandboxGuest> SessionPool::TakeParked(const std::string& key, const Recipe& recipe) {
  if (limits_.jails + limits_.parked == 0 || closing_) return nullptr;
  Kind& kind = kinds_[key];
  if (kind.recipe.warm != recipe.warm) {
    // Its environment changed since; what was made of the old one is of no use.
    if (kind.recipe.warm) tasks_.Add(Empty(std::exchange(kind, Kind{})));
    kind.recipe = recipe;
  }
  kind.asked.push_back(async::Clock::now());
  if (kind.asked.size() > limits_.jails + limits_.parked) kind.asked.pop_front();
  if (!std::exchange(tending_, true)) tasks_.Add(Tend());
  if (asked_) asked_->Set();
  while (!kind.parked.empty()) {
    std::unique_ptr<SandboxGuest> session = std::move(kind.parked.front());
    kind.parked.pop_front();
    if (session->IsFresh()) return session;
    tasks_.Add(
        [](std::unique_ptr<SandboxGuest> dead) -> async::Task<void> { co_await dead->Close(); }(std::move(session)));
  }
  return nullptr;
}

std::unique_ptr<confine::EmptyJail> SessionPool::TakeEmptyJail(const std::string& key, const WarmEnvironment* warm) {
  auto found = kinds_.find(key);
  if (found == kinds_.end() || found->second.recipe.warm.get() != warm) return nullptr;
  while (!found->second.jails.empty()) {
    std::unique_ptr<confine::EmptyJail> jail = std::move(found->second.jails.front());
    found->second.jails.pop_front();
    if (!jail->jail.ended()) return jail;
  }
  return nullptr;
}

// True when something was made, or tried and failed: then there may be more to do.
async::Task<bool> SessionPool::FillOne() {
  for (auto& [key, kind] : kinds_) {
    const size_t demand = Demand(kind);
    const bool wants_parked = kind.recipe.parks && kind.parked.size() < std::min(limits_.parked, demand);
    const bool wants_jail = kind.jails.size() < std::min(limits_.jails, demand);
    if (!wants_parked && !wants_jail) continue;
    const std::string wanted = key;
    Recipe recipe = kind.recipe;
    auto pass = co_await starting_.Enter();
    confine::EmptyJailLimits limits{recipe.limits, recipe.spec.policy.limits.disk.value};
    auto jail = co_await recipe.warm->TakeEmptyJail(limits, recipe.spec.policy);
    if (!jail) {
      // The next request gets the reason.
      if (auto failed = kinds_.find(wanted); failed != kinds_.end()) failed->second.asked.clear();
      co_return true;
    }
    if (!wants_parked) {
      auto still = kinds_.find(wanted);
      if (still != kinds_.end() && still->second.recipe.warm == recipe.warm) {
        still->second.jails.push_back(std::move(*jail));
      } else {
        co_await (*jail)->End();
      }
      co_return true;
    }
    auto session = co_await SandboxGuest::Open(context_, recipe.warm, std::move(*jail), recipe.limits, recipe.spec);
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
    // Requests go first.
    (void)co_await async::SleepUntil(async::Clock::now() + kCourtesy);
  }
  tending_ = false;
}

async::Task<void> SessionPool::Empty(Kind kind) {
  for (auto& session : kind.parked) co_await session->Close();
  for (auto& jail : kind.jails) co_await jail->End();
}

long SessionPool::UsesOf(const WarmEnvironment* warm) const {
  long uses = 0;
  for (const auto& [key, kind] : kinds_) {
    if (kind.recipe.warm.get() == warm) uses += 1 + static_cast<long>(kind.parked.size());
  }
  return uses;
}

void SessionPool::Forget(const WarmEnvironment* warm) {
  for (auto kind = kinds_.begin(); kind != kinds_.end();) {
    if (kind->second.recipe.warm.get() != warm) {
      ++kind;
      continue;
    }
    tasks_.Add(Empty(std::move(kind->second)));
    kind = kinds_.erase(kind);
  }
}

run::Readiness SessionPool::readiness() const {
  run::Readiness readiness;
  for (const auto& [key, kind] : kinds_) {
    readiness.jails += kind.jails.size();
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
