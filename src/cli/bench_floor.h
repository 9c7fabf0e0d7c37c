// What this machine itself asks for: the same interpreter, forked and spoken to over a socket, with no jail, no limits,
// no output and nothing kept; and empty namespaces. `cella bench` shows it beside the sessions, which add to it.
#pragma once

#include "base/result.h"
#include "cli/bench_sessions.h"

namespace cella::cli {

Result<SessionBench> MeasureFloor(const SessionBenchOptions& options);

}  // namespace cella::cli
