#include "executor/subprocess/kernel_pool.h"

#include <algorithm>

#include "async/caught.h"
#include "async/deadline.h"
#include "executor/sandbox/session_plan.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// Demand is what was asked for within this time; afterwards what was made ahead goes away.
constexpr auto kMemory = 5min;
// After a session was opened, for its first run.
constexpr auto kCourtesy = 100ms;
constexpr auto kPoll = 10s;
// Kinds without a kernel that are remembered.
constexpr size_t kMostKinds = 64;

}  // namespace

size_t KernelPool::Demand(Kind& kind) const {
  const async::TimePoint oldest = async::Clock::now() - kMemory;
  while (!kind.asked.empty() && kind.asked.front() < oldest) kind.asked.pop_front();
  return kind.asked.size();
}

size_t KernelPool::size() const {
  size_t size = 0;
  for (const auto& [key, kind] : kinds_) size += kind.ready.size();
  return size;
}

async::Task<std::unique_ptr<SubprocessGuest>> KernelPool::Take(const run::GuestSpec& spec) {
  if (limit_ == 0 || closing_ || !IsInterchangeable(spec)) co_return nullptr;
  const std::string key = PoolKey(spec);
  if (kinds_.size() >= kMostKinds && !kinds_.contains(key)) co_return nullptr;
  Kind& kind = kinds_[key];
  kind.spec = spec;
  kind.asked.push_back(async::Clock::now());
  if (kind.asked.size() > limit_) kind.asked.pop_front();
  quiet_at_ = async::Clock::now() + kCourtesy;
  if (!std::exchange(tending_, true)) tasks_.Add(Tend());
  if (asked_) asked_->Set();
  // The map may change while a guest is looked at.
  for (auto found = kinds_.find(key); found != kinds_.end() && !found->second.ready.empty(); found = kinds_.find(key)) {
    std::unique_ptr<SubprocessGuest> guest = std::move(found->second.ready.front());
    found->second.ready.pop_front();
    const bool ready = co_await guest->IsReady();
    if (ready && !closing_) co_return guest;
    co_await guest->Close();
  }
  co_return nullptr;
}

// True when something was made, or tried and failed: then there may be more to do.
async::Task<bool> KernelPool::FillOne() {
  for (auto& [key, kind] : kinds_) {
    if (kind.ready.size() >= Demand(kind) || size() >= limit_) continue;
    const std::string wanted = key;
    auto made = co_await make_(kind.spec, stop_.token());
    auto still = kinds_.find(wanted);
    if (made && !closing_ && still != kinds_.end()) {
      still->second.ready.push_back(std::move(*made));
    } else if (made) {
      co_await (*made)->Close();
    } else if (still != kinds_.end()) {
      // The next client that asks for one is told why.
      still->second.asked.clear();
    }
    co_return true;
  }
  co_return false;
}

async::Task<void> KernelPool::Tend() {
  while (!closing_ && !kinds_.empty()) {
    if (async::Clock::now() < quiet_at_) {
      (void)co_await async::SleepUntil(quiet_at_);
      continue;
    }
    const bool busy = co_await FillOne();
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
    asked_ = std::make_unique<async::Event>(loop_);
    (void)co_await async::FirstOf(asked_->Wait(), async::SleepUntil(async::Clock::now() + kPoll));
    asked_.reset();
  }
  tending_ = false;
}

async::Task<void> KernelPool::Empty(Kind kind) {
  for (auto& guest : kind.ready) co_await guest->Close();
}

async::Task<void> KernelPool::Close() {
  closing_ = true;
  (void)stop_.Request(StopReason::kClosing);
  for (auto& [key, kind] : kinds_) tasks_.Add(Empty(std::move(kind)));
  kinds_.clear();
  if (asked_) asked_->Set();
  (void)co_await async::Caught(tasks_.Join());
}

}  // namespace cella::executor
