// What one client and one guest can do to a server's loop: requests and displays that were made to be slow to read, and
// the lag of the loop meanwhile, as the server's own metrics report it.
#pragma once

#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cli/bench_report.h"

namespace cella::cli {

// The server listens on `address` and serves nothing else.
async::Task<Result<std::vector<BenchFigure>>> MeasureHostile(async::Loop& loop, std::string address,
                                                             std::string python);

}  // namespace cella::cli
