// A Jupyter kernel per session: ipykernel of the session's Python, or any kernelspec. Unconfined, with the limits,
// the clean environment variables and the watched process tree of the local executor.
#pragma once

#include <set>

#include "executor/local/local_executor.h"
#include "jupyter/kernelspec.h"

namespace cella::executor {

class SubprocessExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor.
  SubprocessExecutor(confine::LaunchContext context, LocalHost local, jupyter::KernelHost kernels);

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

 private:
  confine::LaunchContext context_;
  LocalHost local_;
  jupyter::KernelHost kernels_;
  std::set<std::string> tcp_kernels_;
};

}  // namespace cella::executor
