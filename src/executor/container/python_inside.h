// Asks the interpreter of a container's image which packages fit it.
#pragma once

#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "confine/program_execution.h"
#include "run/stop.h"

namespace cella::executor {

// JSON as run::GuestPython has it. What comes from inside is checked only for its size. An Error: the
// image has no python3, or it gave no answer.
async::Task<Result<std::string>> AskPython(confine::ProgramPlace place, const Policy& policy, run::StopToken stop);

}  // namespace cella::executor
