// The part of `cella bench` that measures environments: numpy and pandas from a warm cache, beside venv and pip, and
// what runs and sessions with them take beside those without. Needs the operator's package index for the first round.
#pragma once

#include "cli/bench_sessions.h"

namespace cella::cli {

Result<SessionBench> MeasureEnvironments(const SessionBenchOptions& options);

}  // namespace cella::cli
