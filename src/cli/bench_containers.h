// Containers of ours beside the `docker` program, with the same engine and image.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_report.h"

namespace cella::cli {

// `rounds` of each, interleaved. Rows without samples where there is no engine, no image or no `docker`.
std::vector<BenchRow> MeasureContainers(const std::string& image, int rounds, bool progress);

}  // namespace cella::cli
