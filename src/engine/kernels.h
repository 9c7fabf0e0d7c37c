// The Jupyter kernels of this machine, as this process's environment variables name them.
#pragma once

#include <string>
#include <vector>

#include "executor/subprocess/kernel_list.h"

namespace cella::engine {

// Of this process. Not to be called while another thread changes the environment.
jupyter::KernelHost ObserveKernelHost(const std::string& home);

// `python` and `venv` choose the session's Python; empty: the default one. Blocks.
std::vector<executor::KernelStatus> ListKernels(const std::string& python, const std::string& venv);

}  // namespace cella::engine
