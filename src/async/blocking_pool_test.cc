#include "async/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <latch>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "async/deadline.h"
#include "async/event.h"
#include "async/task_group.h"

namespace cella::async {
namespace {

using namespace std::chrono_literals;

TEST(BlockingPoolTest, RunsOnAnotherThreadAndResumesOnTheLoop) {
  Loop loop;
  BlockingPool pool(loop, {});
  auto main = [&]() -> Task<void> {
    const auto on_loop = std::this_thread::get_id();
    auto work = []() -> Result<std::thread::id> { return std::this_thread::get_id(); };
    auto worker = co_await pool.Run(work);
    EXPECT_TRUE(worker.has_value());
    EXPECT_NE(*worker, on_loop);
    EXPECT_EQ(std::this_thread::get_id(), on_loop);
  };
  loop.Run(main());
}

TEST(BlockingPoolTest, ReturnsErrorsAndMoveOnlyValues) {
  Loop loop;
  BlockingPool pool(loop, {});
  auto main = [&]() -> Task<void> {
    auto fails = []() -> Status { return Err(ErrorCode::kPermission, "no"); };
    Status status = co_await pool.Run(fails);
    EXPECT_EQ(status.error().code, ErrorCode::kPermission);
    auto owned = std::make_unique<int>(41);
    auto gives = [kept = std::move(owned)]() mutable -> Result<std::unique_ptr<int>> {
      ++*kept;
      return std::move(kept);
    };
    auto value = co_await pool.Run(std::move(gives));
    EXPECT_EQ(**value, 42);
  };
  loop.Run(main());
}

TEST(BlockingPoolTest, ExceptionIsRethrownFromAwait) {
  Loop loop;
  BlockingPool pool(loop, {});
  auto main = [&]() -> Task<void> {
    auto throws = []() -> Status { throw std::runtime_error("third party"); };
    (void)co_await pool.Run(throws);
  };
  EXPECT_THROW(loop.Run(main()), std::runtime_error);
}

TEST(BlockingPoolTest, LoopRunsWhileACallBlocks) {
  Loop loop;
  BlockingPool pool(loop, {});
  std::binary_semaphore released(0);
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    Event answered(loop);
    auto blocked = [&]() -> Task<void> {
      auto work = [&]() -> Status {
        released.acquire();
        return {};
      };
      (void)co_await pool.Run(work);
      answered.Set();
    };
    group.Add(blocked());
    (void)co_await SleepUntil(Clock::now() + 1ms);
    EXPECT_FALSE(answered.is_set());
    released.release();
    co_await group.Join();
    EXPECT_TRUE(answered.is_set());
  };
  loop.Run(main());
}

// Every call waits for all the others, so that fewer threads would never finish.
TEST(BlockingPoolTest, UsesUpToItsLimitOfThreads) {
  Loop loop;
  constexpr int kThreads = 3;
  BlockingPool pool(loop, {.threads = kThreads, .queue = 64});
  std::latch together(kThreads);
  std::atomic<int> inside = 0, most = 0;
  auto call = [&](bool meets) -> Task<void> {
    auto work = [&, meets]() -> Status {
      int now = ++inside;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      if (meets) together.arrive_and_wait();
      --inside;
      return {};
    };
    Status status = co_await pool.Run(work);
    EXPECT_TRUE(status.has_value());
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    for (int i = 0; i < kThreads; ++i) group.Add(call(true));
    for (int i = 0; i < 50; ++i) group.Add(call(false));
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_EQ(most, kThreads);
}

// One thread, held until the test lets go of it.
struct HeldPool {
  explicit HeldPool(size_t queue) : pool(loop, {.threads = 1, .queue = queue}), group(loop) {}

  Task<void> Hold() {
    auto work = [this](const std::stop_token& stop) -> Result<bool> {
      running.release();
      released.acquire();
      return stop.stop_requested();
    };
    auto asked_to_stop = co_await pool.Run(work);
    EXPECT_TRUE(asked_to_stop.has_value());
    stopped = asked_to_stop.value_or(false);
    hold_ended = true;
  }

  Loop loop;
  BlockingPool pool;
  TaskGroup group;
  std::binary_semaphore running{0}, released{0};
  bool stopped = false;
  bool hold_ended = false;
};

TEST(BlockingPoolTest, RejectsCallsBeyondTheQueueLimit) {
  HeldPool held(2);
  int answered = 0;
  auto quick = []() -> Status { return {}; };
  auto queued = [&]() -> Task<void> {
    Status status = co_await held.pool.Run(quick);
    answered += status.has_value() ? 1 : 0;
  };
  auto main = [&]() -> Task<void> {
    held.group.Add(held.Hold());
    (void)co_await SleepUntil(Clock::now());
    held.running.acquire();
    held.group.Add(queued());
    held.group.Add(queued());
    (void)co_await SleepUntil(Clock::now() + 1ms);
    EXPECT_EQ(held.pool.waiting(), 2u);
    Status refused = co_await held.pool.Run(quick);
    EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
    held.released.release();
    co_await held.group.Join();
    Status again = co_await held.pool.Run(quick);
    EXPECT_TRUE(again.has_value());
  };
  held.loop.Run(main());
  EXPECT_EQ(answered, 2);
}

TEST(BlockingPoolTest, CancelledQueuedCallNeverRuns) {
  HeldPool held(8);
  bool ran = false;
  auto main = [&]() -> Task<void> {
    held.group.Add(held.Hold());
    (void)co_await SleepUntil(Clock::now());
    held.running.acquire();
    auto work = [&]() -> Status {
      ran = true;
      return {};
    };
    auto late = co_await WithDeadline(held.pool.Run(work), Clock::now() + 1ms);
    EXPECT_FALSE(late.has_value());
    EXPECT_EQ(held.pool.waiting(), 0u);
    held.released.release();
    co_await held.group.Join();
  };
  held.loop.Run(main());
  EXPECT_FALSE(ran);
}

TEST(BlockingPoolTest, CancelledRunningCallGetsAStopRequestAndIsAwaited) {
  HeldPool held(8);
  auto main = [&]() -> Task<void> {
    held.group.Add(held.Hold());
    (void)co_await SleepUntil(Clock::now());
    held.running.acquire();
    held.group.Cancel();
    (void)co_await SleepUntil(Clock::now() + 1ms);
    EXPECT_FALSE(held.hold_ended);  // its call still refers to what the task owns
    held.released.release();
    co_await held.group.Join();
    EXPECT_TRUE(held.stopped);
  };
  held.loop.Run(main());
}

// What a task does to clean up after it was cancelled must still work.
TEST(BlockingPoolTest, CancelledTaskCanSubmitCalls) {
  Loop loop;
  BlockingPool pool(loop, {});
  bool cleaned = false;
  auto task = [&]() -> Task<int> {
    (void)co_await SleepUntil(Clock::now() + 1h);
    auto work = []() -> Result<int> { return 1; };
    auto value = co_await pool.Run(work);
    cleaned = value.has_value();
    co_return 0;
  };
  auto main = [&]() -> Task<void> { (void)co_await WithDeadline(task(), Clock::now() + 1ms); };
  loop.Run(main());
  EXPECT_TRUE(cleaned);
}

TEST(BlockingPoolTest, DestructorAwaitsRunningCallsAndRejectsQueuedOnes) {
  Loop loop;
  auto pool = std::make_unique<BlockingPool>(loop, BlockingPool::Options{.threads = 1, .queue = 8});
  const BlockingPool& ending = *pool;
  std::binary_semaphore running{0}, all_queued{0};
  std::atomic<bool> finished = false;
  int closed = 0, answered = 0;
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    auto slow = [&]() -> Task<void> {
      auto work = [&]() -> Status {
        running.release();
        all_queued.acquire();
        // Not before the destructor has taken the queue, or this thread would go on with it.
        const auto limit = Clock::now() + 20s;
        while (ending.waiting() > 0 && Clock::now() < limit) std::this_thread::yield();
        std::this_thread::sleep_for(5ms);
        finished = true;
        return {};
      };
      Status status = co_await pool->Run(work);
      answered += status.has_value() ? 1 : 0;
    };
    auto queued = [&]() -> Task<void> {
      auto work = []() -> Status { return {}; };
      Status status = co_await pool->Run(work);
      closed += !status && status.error().code == ErrorCode::kClosed ? 1 : 0;
    };
    group.Add(slow());
    group.Add(queued());
    group.Add(queued());
    (void)co_await SleepUntil(Clock::now());
    running.acquire();
    EXPECT_EQ(pool->waiting(), 2u);
    all_queued.release();
    pool.reset();
    EXPECT_TRUE(finished);
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(closed, 2);
}

TEST(BlockingPoolTest, ThreadsBlockSignals) {
  Loop loop;
  BlockingPool pool(loop, {});
  auto main = [&]() -> Task<void> {
    auto work = []() -> Result<bool> {
      sigset_t mask;
      (void)pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      return sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1;
    };
    auto blocked = co_await pool.Run(work);
    EXPECT_TRUE(blocked.value());
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
  };
  loop.Run(main());
}

TEST(BlockingPoolTest, CallsRacingWithDeadlinesAreAllAnswered) {
  Loop loop;
  BlockingPool pool(loop, {.threads = 4, .queue = 10000});
  std::atomic<int> ran = 0;
  int answered = 0, withdrawn = 0;
  auto call = [&](int number) -> Task<void> {
    auto work = [&]() -> Status {
      ++ran;
      return {};
    };
    auto value = co_await WithDeadline(pool.Run(work), Clock::now() + std::chrono::microseconds(number % 7 * 100));
    ++(value ? answered : withdrawn);
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    for (int i = 0; i < 5000; ++i) group.Add(call(i));
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_EQ(answered + withdrawn, 5000);
  EXPECT_GE(ran, answered);
}

}  // namespace
}  // namespace cella::async
