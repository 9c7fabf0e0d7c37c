// The default executor: every run in a jail of its own.
#pragma once

#include "executor/executor.h"
#include "executor/launch_context.h"

namespace cella::executor {

class SandboxExecutor : public Executor {
 public:
  // What the context refers to outlives the executor.
  explicit SandboxExecutor(LaunchContext context) : context_(std::move(context)) {}

  async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) override;

 private:
  LaunchContext context_;
};

}  // namespace cella::executor
