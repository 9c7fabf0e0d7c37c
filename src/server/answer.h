// Answers in the API's own shape: refusals, and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "http/exchange.h"
#include "server/api_error.h"

namespace cella::server {

// What the engine refused, for the client that asked. Failures of ours are 500 with the engine's own words.
ApiError ToApiError(const Error& error);
inline std::unexpected<ApiError> Refused(const Error& error) { return std::unexpected(ToApiError(error)); }

inline std::unexpected<ApiError> NotFound(std::string message) {
  return std::unexpected(ApiError{404, "not_found", std::move(message), {}, std::nullopt});
}
inline std::unexpected<ApiError> Conflict(std::string message, std::string hint = {}) {
  return std::unexpected(ApiError{409, "conflict", std::move(message), std::move(hint), std::nullopt});
}

// 409: what was asked for needs a session that lives.
inline std::unexpected<ApiError> SessionEnded(const std::string& because) {
  return std::unexpected(
      ApiError{409, "session_ended", "the session has ended: " + because, "open a new one", std::nullopt});
}

// 503: the server is about to end.
ApiError Draining();

// {"error": {"code", "message", "hint"}}, with Retry-After and WWW-Authenticate where they belong.
async::Task<void> Refuse(http::Exchange& exchange, ApiError error);
async::Task<void> AnswerJson(http::Exchange& exchange, int status, const nlohmann::ordered_json& json);

// As one line; what is not UTF-8 is replaced.
std::string ToText(const nlohmann::ordered_json& json);

}  // namespace cella::server
