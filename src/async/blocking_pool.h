// A few threads for what would block the loop: databases, slow file operations, hashing. `Run` is awaited on the loop;
// the callable runs on a thread of the pool and its Result comes back to the loop. The pool lives on the loop's thread,
// starts its threads when they are first needed and joins them when it goes away, before the loop does.
//
// Never start a guest from here that outlives the call: its parent-death signal is bound to the thread of the pool, not
// to the process.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/task.h"
#include "base/result.h"

namespace cella::async {

// A callable that gives a Result; it may take a stop_token, to look whether a task still waits for the answer.
template <typename F>
concept Blocking = std::invocable<F&> || std::invocable<F&, std::stop_token>;

class BlockingPool {
 public:
  struct Options {
    size_t threads = 4;
    size_t queue = 256;  // calls that may wait for a thread
  };

  BlockingPool(Loop& loop, Options options);
  // Waits for what is running; what is still queued is answered with kClosed.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Calls `work`, which may refer to what the awaiting task owns: the await ends only when the call has. A task that is
  // cancelled while its call is queued takes it back (kClosed); once it runs, it is asked to stop and awaited, and its
  // answer counts. kExhausted: too many wait. An exception of `work` leaves through the await.
  template <Blocking F>
  auto Run(F work) {
    return RunTyped<typename Answer<F>::Type>(std::move(work));
  }

  size_t waiting() const;

 private:
  struct Core;
  struct Job;

  template <typename F>
  struct Answer {
    using Type = std::invoke_result_t<F&>;
  };
  template <std::invocable<std::stop_token> F>
  struct Answer<F> {
    using Type = std::invoke_result_t<F&, std::stop_token>;
  };

  template <typename T, typename F>
  Task<T> RunTyped(F work) {
    std::optional<T> answer;
    auto call = [&](const std::stop_token& stop) {
      if constexpr (std::invocable<F&, std::stop_token>) {
        answer.emplace(work(stop));
      } else {
        answer.emplace(work());
      }
    };
    Status ran = co_await Do(call);
    if (!ran) co_return std::unexpected(std::move(ran.error()));
    co_return std::move(*answer);
  }

  Task<Status> Do(std::function<void(const std::stop_token&)> call);
  Status StartThread();

  std::shared_ptr<Core> core_;
  const Options options_;
  std::vector<std::jthread> threads_;
};

}  // namespace cella::async
