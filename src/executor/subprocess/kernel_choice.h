// Which kernel a session runs, and how it is started: a named kernelspec, or ipykernel of the session's Python.
#pragma once

#include "confine/launch_context.h"
#include "executor/local/host_variables.h"
#include "executor/subprocess/kernel_process.h"

namespace cella::executor {

struct KernelChoice {
  KernelCommand command;       // without a working directory
  confine::EnvVars variables;  // of the command
  language::Plan plan;         // of the session's Python, for what a jail must show
  std::string language;        // as the language table names it; empty: unknown there
  std::string python;          // the interpreter, where the kernel is our own ipykernel
};

// kNotFound: there is no such kernel or interpreter. `bins` come after the interpreter's directory on PATH. May ask
// programs about themselves, off the loop.
async::Task<Result<KernelChoice>> ChooseKernel(confine::LaunchContext& context, const LocalHost& host,
                                               const jupyter::KernelHost& kernels, const Policy& policy,
                                               const std::vector<std::string>& bins, const std::string& scratch);

}  // namespace cella::executor
