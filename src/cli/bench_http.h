// The part of `cella bench` that measures a server: a `cella serve` of its own on a Unix socket, with the client in
// this process. The client takes its share of the processors, as any client on the same machine would.
#pragma once

#include "base/result.h"
#include "cli/bench_sessions.h"

namespace cella::cli {

Result<SessionBench> MeasureHttp(const SessionBenchOptions& options);

}  // namespace cella::cli
