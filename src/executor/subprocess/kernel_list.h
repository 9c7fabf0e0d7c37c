// The installed kernels, and whether each could be started, without starting one. Blocks.
#pragma once

#include <string>
#include <vector>

#include "jupyter/kernelspec.h"
#include "language/host_env.h"

namespace cella::executor {

struct KernelStatus {
  jupyter::Kernelspec spec;
  std::string problem;  // why it cannot be started; empty: nothing is known against it
};

// `python` is the session's Python, which stands in for the programs "python" and "python3"; empty: there is none.
std::vector<KernelStatus> ListKernels(const jupyter::KernelHost& kernels, const language::HostEnv& host,
                                      const std::string& python);

}  // namespace cella::executor
