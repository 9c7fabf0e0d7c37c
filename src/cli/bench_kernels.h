// The subprocess executor beside jupyter_client, with the same ipykernel.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_report.h"

namespace cella::cli {

// Rows without samples where `python` has no ipykernel.
std::vector<BenchRow> MeasureKernels(const std::string& python, int kernels);

}  // namespace cella::cli
