// JSON of clients: one object, with no key twice, within bounds on bytes, depth and values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "http/exchange.h"
#include "server/api_error.h"

namespace cella::server {

// An empty text is an empty object. Pure; any thread.
Answer<nlohmann::json> ParseJsonObject(std::string_view body);

// The same; a large body is read on the pool. `body` is borrowed.
async::Task<Answer<nlohmann::json>> ParseJsonObject(async::BlockingPool& pool, std::string_view body);

// 400: "key: must be a string, got a list".
std::unexpected<ApiError> MustBe(std::string_view key, std::string_view what, const nlohmann::json& value);

// The document of a request, of at most `limit` bytes. Nothing: the refusal was sent, or the client is gone.
async::Task<std::optional<nlohmann::json>> ReadJsonBody(async::BlockingPool& pool, http::Exchange& exchange,
                                                        uint64_t limit);

}  // namespace cella::server
