// Trusted code on the host's file system: no jail, but still clean environment variables, limits, output caps, and an
// end of the whole process tree.
#pragma once

#include <string>

#include "confine/launch_context.h"
#include "run/executor.h"

namespace cella::executor {

// The host's variables that a local program gets without asking, beside PATH and HOME.
struct LocalHost {
  std::string user, lang, tmpdir;
  std::vector<std::pair<std::string, std::string>> whole;  // for inherit_env
};

class LocalExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor. Removes what executors left behind that were killed.
  LocalExecutor(confine::LaunchContext context, LocalHost local);

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

 private:
  confine::LaunchContext context_;
  LocalHost local_;
};

}  // namespace cella::executor
