#include "library/run_core.h"

namespace cella::library {
namespace {

constexpr size_t kMaxEvents = 256;
constexpr size_t kMaxBytes = size_t{4} << 20;

size_t SizeOf(const Event& event) {
  return std::visit(
      [](const auto& each) -> size_t {
        using T = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<T, OutputEvent>) return each.bytes.size();
        if constexpr (std::is_same_v<T, ValueEvent>) return each.text.size() + cella::SizeOf(each.bundle);
        if constexpr (std::is_same_v<T, DisplayEvent>) return cella::SizeOf(each.bundle);
        return sizeof each;
      },
      event);
}

}  // namespace

run::EventSink* RunCore::sink() {
  const std::scoped_lock lock(mutex_);
  return discards_ ? nullptr : &sink_;
}

async::Task<bool> RunCore::Put(Event event) {
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (discards_) co_return true;
      // An event that is larger than the bound alone goes through an empty queue.
      if (events_.empty() || (events_.size() < kMaxEvents && bytes_ < kMaxBytes)) {
        bytes_ += SizeOf(event);
        events_.push_back(std::move(event));
        changed_.notify_all();
        co_return true;
      }
    }
    const bool notified = co_await space_.Wait();
    if (!notified) co_return true;
  }
}

void RunCore::Offer(ToolCall call) {
  const std::scoped_lock lock(mutex_);
  if (result_) return;
  calls_.push_back(std::move(call));
  changed_.notify_all();
}

bool RunCore::ServeOne(std::unique_lock<std::mutex>& lock) {
  if (calls_.empty() || result_) return false;
  ToolCall call = std::move(calls_.front());
  calls_.pop_front();
  lock.unlock();
  Serve(std::move(call));
  lock.lock();
  return true;
}

void RunCore::End(RunResult result) {
  run_.reset();
  std::deque<ToolCall> late;  // functions that end with them must not find the lock taken
  const std::scoped_lock lock(mutex_);
  late.swap(calls_);
  result_ = std::move(result);
  changed_.notify_all();
}

void RunCore::Refuse(Error why) {
  const std::scoped_lock lock(mutex_);
  refusal_ = std::move(why);
  changed_.notify_all();
}

RunCore::Next RunCore::Take(std::optional<std::chrono::steady_clock::time_point> until, Event* event) {
  std::unique_lock lock(mutex_);
  auto ready = [&] { return !events_.empty() || !calls_.empty() || result_ || discards_; };
  do {
    if (!until) {
      changed_.wait(lock, ready);
    } else if (!changed_.wait_until(lock, *until, ready)) {
      return Next::kNothingYet;
    }
  } while (events_.empty() && ServeOne(lock));
  if (events_.empty()) return Next::kEnd;
  const bool was_full = events_.size() >= kMaxEvents || bytes_ >= kMaxBytes;
  bytes_ -= SizeOf(events_.front());
  *event = std::move(events_.front());
  events_.pop_front();
  lock.unlock();
  if (was_full) (void)host_.Post([self = shared_from_this()] { self->space_.Notify(); });
  return Next::kEvent;
}

void RunCore::Discard() {
  {
    const std::scoped_lock lock(mutex_);
    if (result_ || discards_) return;
    discards_ = true;
    events_.clear();
    bytes_ = 0;
    changed_.notify_all();
  }
  (void)host_.Post([self = shared_from_this()] { self->space_.Notify(); });
}

void RunCore::AwaitEnd(std::unique_lock<std::mutex>& lock) {
  do {
    changed_.wait(lock, [&] { return result_.has_value() || refusal_.has_value() || !calls_.empty(); });
  } while (ServeOne(lock));
}

const RunResult& RunCore::Wait() {
  Discard();
  std::unique_lock lock(mutex_);
  AwaitEnd(lock);
  return *result_;
}

Result<RunResult> RunCore::WaitOrRefusal() {
  std::unique_lock lock(mutex_);
  AwaitEnd(lock);
  if (refusal_) return std::unexpected(std::move(*refusal_));
  return std::move(*result_);
}

void RunCore::Stop(StopReason reason) {
  (void)host_.Post([self = shared_from_this(), reason] {
    if (self->run_) (void)self->run_->Stop(reason);
  });
}

Status RunCore::Reply(std::optional<std::string> text) {
  auto self = shared_from_this();
  return host_.Call<void>([self, text = std::move(text)]() -> async::Task<Status> {
    if (!self->run_) co_return Err(ErrorCode::kClosed, "the run has ended");
    co_return self->run_->Reply(text);
  });
}

}  // namespace cella::library
