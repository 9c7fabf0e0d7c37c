// The environment variables that every guest of a jail begins with.
#pragma once

#include "confine/env_vars.h"

namespace cella::confine {

EnvVars JailEnvVars(const language::Plan& plan);

}  // namespace cella::confine
