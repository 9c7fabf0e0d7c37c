// A Jupyter kernel per session: ipykernel in a virtual environment of the session's own, or any kernelspec. Unconfined,
// with the limits, the clean environment variables and the watched process tree of the local executor; or in a jail.
#pragma once

#include <set>

#include "executor/local/local_executor.h"
#include "executor/subprocess/kernel_environments.h"
#include "executor/subprocess/kernel_pool.h"
#include "executor/subprocess/kernel_zygote.h"
#include "jupyter/kernelspec.h"

namespace cella::executor {

class SubprocessExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor. `ahead`: so many kernels are made ahead of demand.
  SubprocessExecutor(confine::LaunchContext context, LocalHost local, jupyter::KernelHost kernels,
                     KernelEnvironments* environments, size_t ahead = 0);

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;
  run::Readiness readiness() const override { return {.zygotes = zygotes_.size(), .jails = 0, .parked = pool_.size()}; }
  async::Task<void> Close() override;

 private:
  enum class MadeFor { kClient, kPool };
  async::Task<Result<std::unique_ptr<SubprocessGuest>>> Make(run::GuestSpec spec, MadeFor whom, run::StopToken stop);

  confine::LaunchContext context_;
  LocalHost local_;
  jupyter::KernelHost kernels_;
  KernelEnvironments* environments_;  // null: none are built
  std::set<std::string> tcp_kernels_;
  KernelZygotes zygotes_;
  KernelPool pool_;
};

}  // namespace cella::executor
