// The part of `cella bench` that measures sessions, in the engine itself: how soon a new one answers, what a run in a
// live one costs, how many can be made, and what they weigh.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench_report.h"

namespace cella::cli {

struct SessionBench {
  std::vector<BenchRow> rows;
  std::vector<BenchFigure> figures;
};

struct SessionBenchOptions {
  std::string python;
  int runs = 60;
  int live = 100;  // sessions that are alive at once when their memory is measured
  bool progress = false;
};

// Bare, and with numpy and pandas imported where the interpreter has them.
Result<SessionBench> MeasureSessions(const SessionBenchOptions& options);

}  // namespace cella::cli
