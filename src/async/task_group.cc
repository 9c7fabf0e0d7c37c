#include "async/task_group.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::async {

namespace asio = boost::asio;

void TaskGroup::Add(Task<void> task) {
  auto entry = running_.emplace(running_.end());
  auto done = [this, entry](const std::exception_ptr& error) {
    if (error && !failure_) failure_ = error;
    running_.erase(entry);
    if (running_.empty()) done_.cancel();
  };
  asio::co_spawn(loop_.context(), std::move(task), asio::bind_cancellation_slot(entry->slot(), done));
}

void TaskGroup::Cancel() {
  for (auto& signal : running_) signal.emit(asio::cancellation_type::terminal);
}

Task<void> TaskGroup::Join() {
  // Being cancelled while joining must not leave tasks behind: it is passed on to them instead.
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!running_.empty()) {
    boost::system::error_code error;
    co_await done_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) {
      Cancel();
      co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    }
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

Task<bool> SleepUntil(TimePoint when) {
  auto executor = co_await asio::this_coro::executor;
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(executor, when);
  boost::system::error_code error;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

Task<void> Yield() {
  auto executor = co_await asio::this_coro::executor;
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await asio::post(executor, asio::use_awaitable);
}

}  // namespace cella::async
