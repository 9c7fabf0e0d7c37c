// The command that a policy runs once in its container, before any code.
#pragma once

#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "confine/program_execution.h"
#include "run/stop.h"

namespace cella::executor {

// Runs it with the image's sh, as the guest and within its limits; nothing to do without one. An Error has the end of
// what the command wrote.
async::Task<Status> RunInitCommand(confine::ProgramPlace place, const Policy& policy, run::StopToken stop);

}  // namespace cella::executor
