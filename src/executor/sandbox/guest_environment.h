// The environment variables that every guest of a jail begins with.
#pragma once

#include "executor/environment.h"

namespace cella::executor {

Environment SandboxEnvironment(const language::Plan& plan);

}  // namespace cella::executor
