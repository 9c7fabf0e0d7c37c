// Whether a Python program can be a fork of the zygote, or what of it a fork cannot honour.
#pragma once

#include <string>

#include "cella/policy.h"
#include "cella/run.h"
#include "executor/sandbox/warm_environment.h"
#include "language/plan.h"

namespace cella::executor {

// By the policy and the request alone; empty: nothing is known against it.
std::string WhyExec(const Policy& policy, const RunSpec& run);
// By its plan as well.
std::string WhyExec(const Policy& policy, const RunSpec& run, const language::Plan& plan, const WarmEnvironment& warm);

}  // namespace cella::executor
