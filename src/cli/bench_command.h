// `cella bench`: measures this machine, with the alternatives beside it in the same run.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cella::cli {

struct BenchOptions {
  int runs = 60;
  std::string python;
  std::string image = "python:3-slim";
  std::string svg;
  bool json = false;
  std::string only;  // one part; empty: all but those that take minutes
  int live = 100;
};

void DeclareBenchOptions(CLI::App& command, BenchOptions* options);
int BenchCommand(const BenchOptions& options);

}  // namespace cella::cli
