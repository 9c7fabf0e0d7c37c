// The body of a request to run code: {code, language, blocks, timeout, stdin, input, wait, idempotency_key,
// cancel_on_disconnect}. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/api_error.h"
#include "server/config.h"
#include "server/hosted_session.h"

namespace cella::server {

// 400: an unknown key, a value that cannot be meant, or no code. 403: a timeout beyond the server's.
Answer<RunWish> ReadRunWish(const nlohmann::json& body, const Config& config);

}  // namespace cella::server
