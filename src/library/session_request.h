// The policy document of a caller, who may do whatever this process may: nothing is forbidden, and only what
// contradicts itself or does not exist is refused. Resolves host paths, hence blocks on the file system for a moment.
#pragma once

#include <string_view>

#include "base/result.h"
#include "cella/policy.h"
#include "session/session.h"

namespace cella::library {

struct SessionRequest {
  ExecutorKind executor = kDefaultExecutor;
  session::SessionOptions options;
};

Result<SessionRequest> ReadSessionRequest(std::string_view policy);

}  // namespace cella::library
