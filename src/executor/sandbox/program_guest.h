// One run in a jail that is built for it: the cold path of `cella run`.
#pragma once

#include "confine/program_guest.h"

namespace cella::executor {

// Plans the run's block, then builds the jail that shows what the plan needs. `start` is what the result has about
// the start of the interpreter; empty: nothing.
async::Task<Result<std::unique_ptr<run::Guest>>> OpenProgramGuest(confine::LaunchContext& context, run::GuestSpec spec,
                                                                  const RunSpec& only, std::string start = "");

}  // namespace cella::executor
