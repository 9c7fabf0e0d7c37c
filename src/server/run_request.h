// The body of a request to run code: {id, code, language, blocks, as, file, args, cwd, timeout, stdin, input, wait,
// idempotency_key, cancel_on_disconnect, variables}. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cella/run.h"
#include "server/api_error.h"
#include "server/config.h"
#include "server/run_service.h"

namespace cella::server {

struct RunRequest {
  RunSpec run;
  Delivery delivery;
};

enum class RunKind {
  kOfSession,
  kAlone,       // of a batch: nothing that needs a session
  kOneProgram,  // the same, and always a program
};

// 400: an unknown key, a contradiction, or no code. 403: a timeout beyond the server's.
Answer<RunRequest> ReadRunRequest(const nlohmann::json& body, const Config& config, RunKind kind = RunKind::kOfSession);

}  // namespace cella::server
