// The environment variables of a program that runs unconfined: what a program on this host cannot do without, and
// nothing else of the host's.
#pragma once

#include "confine/env_vars.h"
#include "executor/local/local_executor.h"
#include "language/host_env.h"

namespace cella::executor {

confine::EnvVars LocalVariables(const language::HostEnv& host, const LocalHost& local, const Policy& policy,
                                const language::Plan& plan);

}  // namespace cella::executor
