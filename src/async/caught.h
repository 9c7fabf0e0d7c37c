// Exceptions of third-party code and of exhausted memory, where they must end one task and nothing else.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "async/task.h"
#include "base/result.h"

namespace cella::async {

// The text of the exception that is being handled.
inline std::string ExceptionText() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

// The task's value, or the exception that it left with as an Error. A task that gives a Result gives that.
template <typename T>
Task<Result<T>> Caught(Task<Result<T>> task) {
  std::string why;
  try {
    auto result = co_await std::move(task);
    co_return std::move(result);
  } catch (...) {
    why = ExceptionText();
  }
  co_return Err(ErrorCode::kInternal, "{}", why);
}

template <typename T>
Task<Result<T>> Caught(Task<T> task) {
  std::string why;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
      co_return Result<T>();
    } else {
      auto value = co_await std::move(task);
      co_return std::move(value);
    }
  } catch (...) {
    why = ExceptionText();
  }
  co_return Err(ErrorCode::kInternal, "{}", why);
}

}  // namespace cella::async
