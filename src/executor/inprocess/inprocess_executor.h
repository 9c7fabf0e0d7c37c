// The chosen Python as a plain process of the caller's: the sandbox's runner in the local executor's process tree,
// without a jail. The fastest place that keeps state outside the caller's own interpreter, for trusted code.
#pragma once

#include "confine/launch_context.h"
#include "executor/local/local_executor.h"
#include "run/executor.h"

namespace cella::executor {

class InProcessExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor. Removes what executors left behind that were killed.
  InProcessExecutor(confine::LaunchContext context, LocalHost local);

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

 private:
  confine::LaunchContext context_;
  LocalHost local_;
};

}  // namespace cella::executor
