#include "server/answer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace cella::server {

ApiError ToApiError(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid: return {400, "invalid", error.message, {}, std::nullopt};
    case ErrorCode::kNotFound:
      // A service behind this server, such as a container engine.
      if (error.sys_errno == ECONNREFUSED) return {503, "unavailable", error.message, {}, std::chrono::seconds(5)};
      return {404, "not_found", error.message, {}, std::nullopt};
    case ErrorCode::kPermission: return {403, "forbidden", error.message, {}, std::nullopt};
    case ErrorCode::kUnsupported: return {409, "unsupported", error.message, {}, std::nullopt};
    case ErrorCode::kExhausted: return {429, "exhausted", error.message, {}, std::chrono::seconds(1)};
    case ErrorCode::kClosed: return {409, "closed", error.message, {}, std::nullopt};
    case ErrorCode::kInternal: break;
  }
  return {500, "internal", error.message, {}, std::nullopt};
}

ApiError Draining() {
  return {503, "draining", "the server is about to end", "try again in a moment", std::chrono::seconds(5)};
}

std::string ToText(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

async::Task<void> Refuse(http::Exchange& exchange, ApiError error) {
  nlohmann::ordered_json words = {{"code", error.code}, {"message", error.message}};
  if (!error.hint.empty()) words["hint"] = error.hint;
  const std::string body = ToText({{"error", std::move(words)}});
  std::vector<http::Header> headers = {{"Content-Type", "application/json"}};
  std::string seconds;
  if (error.retry_after) {
    const double wait = std::chrono::duration<double>(*error.retry_after).count();
    seconds = std::to_string(std::max(1L, std::lround(std::ceil(wait))));
    headers.push_back({"Retry-After", seconds});
  }
  if (error.status == 401) headers.push_back({"WWW-Authenticate", "Bearer realm=\"cella\""});
  (void)co_await exchange.Send(error.status, headers, body);
}

async::Task<void> AnswerJson(http::Exchange& exchange, int status, const nlohmann::ordered_json& json) {
  const std::string body = ToText(json);
  (void)co_await exchange.SendJson(status, body);
}

}  // namespace cella::server
