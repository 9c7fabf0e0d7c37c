#pragma once

#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <type_traits>

namespace cella::async {

template <typename T>
T Loop::Run(Task<T> task) {
  std::exception_ptr failure;
  context_.restart();
  if constexpr (std::is_void_v<T>) {
    boost::asio::co_spawn(context_, std::move(task), [&](const std::exception_ptr& error) { failure = error; });
    context_.run();
    if (failure) std::rethrow_exception(failure);
  } else {
    std::optional<T> result;
    auto done = [&](const std::exception_ptr& error, T value) {
      failure = error;
      if (!error) result.emplace(std::move(value));
    };
    boost::asio::co_spawn(context_, std::move(task), done);
    context_.run();
    if (failure) std::rethrow_exception(failure);
    return std::move(*result);
  }
}

}  // namespace cella::async
