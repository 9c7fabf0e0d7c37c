// Racing tasks: against another, or against time. The loser is cancelled and has ended when the winner's value is
// there.
#pragma once

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <variant>

#include "async/task.h"

namespace cella::async {

template <typename A, typename B>
Task<std::variant<A, B>> FirstOf(Task<A> a, Task<B> b) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto first = co_await (std::move(a) || std::move(b));
  co_return first;
}

// The task's value, or nothing when the deadline came first.
template <typename T>
Task<std::optional<T>> WithDeadline(Task<T> task, TimePoint deadline) {
  auto first = co_await FirstOf(std::move(task), SleepUntil(deadline));
  if (first.index() == 1) co_return std::nullopt;
  co_return std::optional<T>(std::move(std::get<0>(first)));
}

}  // namespace cella::async
