// What this machine itself asks for: the same interpreter, forked and spoken to over a socket, with no jail, no limits,
// no output and nothing kept; and empty namespaces. `cella bench` shows it beside the sessions, which add to it.
#pragma once

#include "base/result.h"
#include "cli/bench_sessions.h"

namespace cella::cli {

// Rows that others name as theirs.
inline constexpr const char* kFloorOfNew = "floor: bare fork, first answer";
inline constexpr const char* kFloorOfLive = "floor: bare x = 1";
inline constexpr const char* kFloorOfBackToBack = "floor: bare x = 1, back to back";

Result<SessionBench> MeasureFloor(const SessionBenchOptions& options);
// Measured again: the samples of both times count.
void AddToFloor(const SessionBench& again, SessionBench* floor);

}  // namespace cella::cli
