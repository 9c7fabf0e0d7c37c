// What `cella bench` compares sessions with: kernels of ipykernel, as jupyter_client starts them.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_report.h"

namespace cella::cli {

// Rows that say why, where the interpreter lacks them.
std::vector<BenchRow> MeasureJupyter(const std::string& python, int kernels);

}  // namespace cella::cli
