// Trusted code on the host's file system: no jail, but still a clean environment, limits, output caps, and an end of
// the whole process tree.
#pragma once

#include <string>

#include "executor/environment.h"
#include "executor/executor.h"
#include "executor/launch_context.h"

namespace cella::executor {

// What of the host's environment a local program gets without asking, beside PATH and HOME.
struct LocalHost {
  std::string user, lang, tmpdir;
  std::vector<std::pair<std::string, std::string>> whole;  // for inherit_env
};

class LocalExecutor : public Executor {
 public:
  // What the context refers to outlives the executor.
  // Removes what executors left behind that were killed.
  LocalExecutor(LaunchContext context, LocalHost local);

  async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) override;
  async::Task<Result<std::unique_ptr<SessionGuest>>> Open(SessionRequest request) override;

 private:
  Environment BaseEnvironment(const RunRequest& request, const language::Plan& plan) const;

  LaunchContext context_;
  LocalHost local_;
};

}  // namespace cella::executor
