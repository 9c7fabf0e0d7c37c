#include "async/blocking_pool.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>

#include "async/event.h"
#include "base/scope_exit.h"

namespace cella::async {

namespace asio = boost::asio;

// `call` refers to the frame of the awaiting coroutine, which stays until `done`. `done` belongs to the loop's thread;
// the rest is handed over by the mutex of the core and by the loop's queue.
struct BlockingPool::Job {
  Job(Loop& loop, std::function<void(const std::stop_token&)> what) : call(std::move(what)), done(loop) {}

  std::function<void(const std::stop_token&)> call;
  std::stop_source stop;
  std::exception_ptr failure;
  bool ran = false;
  Event done;
};

// Shared with the awaiting coroutines and the threads, so that none of them depends on who goes first.
struct BlockingPool::Core {
  explicit Core(Loop& on) : loop(on) {}

  void Work();
  // True when the job was still waiting: no thread will call it.
  bool Withdraw(const std::shared_ptr<Job>& job);
  void Complete(std::shared_ptr<Job> job);

  Loop& loop;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> queue;  // the mutex guards this and what follows
  size_t idle = 0;                         // threads that wait for a job; the caller that starts a thread counts it
  bool ending = false;
};

void BlockingPool::Core::Work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return ending || !queue.empty(); });
    --idle;
    if (ending) return;
    std::shared_ptr<Job> job = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    try {
      job->call(job->stop.get_token());
    } catch (...) {
      job->failure = std::current_exception();
    }
    job->ran = true;
    Complete(std::move(job));
    lock.lock();
    ++idle;
  }
}

bool BlockingPool::Core::Withdraw(const std::shared_ptr<Job>& job) {
  std::scoped_lock lock(mutex);
  return std::erase(queue, job) > 0;
}

// The reference moves along: the job holds a timer of the loop, and its last reference must be dropped over there.
void BlockingPool::Core::Complete(std::shared_ptr<Job> job) {
  asio::post(loop.context(), [job = std::move(job)] { job->done.Set(); });
}

BlockingPool::BlockingPool(Loop& loop, Options options)
    : core_(std::make_shared<Core>(loop)), options_{std::max<size_t>(options.threads, 1), options.queue} {}

BlockingPool::~BlockingPool() {
  std::deque<std::shared_ptr<Job>> refused;
  {
    std::scoped_lock lock(core_->mutex);
    core_->ending = true;
    refused.swap(core_->queue);
  }
  core_->changed.notify_all();
  threads_.clear();
  for (std::shared_ptr<Job>& job : refused) core_->Complete(std::move(job));
}

size_t BlockingPool::waiting() const {
  std::scoped_lock lock(core_->mutex);
  return core_->queue.size();
}

Status BlockingPool::StartThread() {
  {
    std::scoped_lock lock(core_->mutex);
    ++core_->idle;
  }
  // Signals are the loop's business; a new thread inherits the mask, so that there is no moment in which it takes one.
  sigset_t all, before;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  ScopeExit restore([&] { (void)pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  try {
    threads_.emplace_back([core = core_] { core->Work(); });
  } catch (const std::system_error& error) {
    std::scoped_lock lock(core_->mutex);
    --core_->idle;
    return SysErr(error.code().value(), "start a thread");
  }
  return {};
}

Task<Status> BlockingPool::Do(std::function<void(const std::stop_token&)> call) {
  co_await asio::this_coro::throw_if_cancelled(false);
  std::shared_ptr<Core> core = core_;  // the pool may be gone when the answer comes
  auto job = std::make_shared<Job>(core->loop, std::move(call));
  const size_t startable = options_.threads - threads_.size();
  bool short_of_threads;
  {
    std::scoped_lock lock(core->mutex);
    if (core->queue.size() >= options_.queue + core->idle + startable) {
      co_return Err(ErrorCode::kExhausted, "{} slow operations wait already: try again later", core->queue.size());
    }
    short_of_threads = core->idle <= core->queue.size();
    core->queue.push_back(job);
  }
  if (short_of_threads && startable > 0) {
    Status started = StartThread();
    // With at least one thread it only takes longer.
    if (!started && threads_.empty()) {
      (void)core->Withdraw(job);
      co_return started;
    }
  }
  core->changed.notify_one();
  while (!job->done.is_set()) {
    (void)co_await job->done.Wait();
    if (job->done.is_set()) break;
    if (core->Withdraw(job)) co_return Err(ErrorCode::kClosed, "cancelled before it began");
    job->stop.request_stop();
  }
  if (job->failure) std::rethrow_exception(job->failure);
  if (!job->ran) co_return Err(ErrorCode::kClosed, "ended before it began");
  co_return Status{};
}

}  // namespace cella::async
