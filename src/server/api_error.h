// What a request is refused with: an HTTP status and words for the client that sent it. Errors of ours stay `Error`;
// these are the client's, so they name what the client wrote and never what the server holds. Plain values.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cella::server {

struct ApiError {
  int status = 400;
  std::string code;     // for programs: "invalid", "forbidden", "too_many_requests"
  std::string message;  // for people
  std::string hint;     // the remedy; may be empty
  std::optional<std::chrono::nanoseconds> retry_after;
};

template <typename T>
using Answer = std::expected<T, ApiError>;

// 400: the request itself is wrong.
inline std::unexpected<ApiError> Invalid(std::string message, std::string hint = {}) {
  return std::unexpected(ApiError{400, "invalid", std::move(message), std::move(hint), std::nullopt});
}

// 403: a sound request for what this server does not give.
inline std::unexpected<ApiError> Forbidden(std::string message, std::string hint = {}) {
  return std::unexpected(ApiError{403, "forbidden", std::move(message), std::move(hint), std::nullopt});
}

// 429: later perhaps.
inline std::unexpected<ApiError> TooMany(std::string message, std::chrono::nanoseconds retry_after) {
  return std::unexpected(ApiError{429, "too_many_requests", std::move(message), {}, retry_after});
}

}  // namespace cella::server
