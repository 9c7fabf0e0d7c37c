// `cella kernels`: which Jupyter kernels are installed.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cella::cli {

struct KernelsOptions {
  std::string python, venv;
  bool json = false;
};

void DeclareKernelsOptions(CLI::App& command, KernelsOptions* options);
int KernelsCommand(const KernelsOptions& options);

}  // namespace cella::cli
