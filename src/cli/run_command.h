// `cella run`: one block, once, and its exit status as ours.
#pragma once

#include "cli/run_options.h"

namespace cella::cli {

int RunCommand(const RunOptions& options);

}  // namespace cella::cli
