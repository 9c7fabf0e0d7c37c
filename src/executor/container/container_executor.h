// Containers of Docker or Podman, through the engine's API: each guest has one, limited and without network.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "confine/launch_context.h"
#include "docker/engine.h"
#include "executor/container/bridge.h"
#include "executor/container/container_plan.h"
#include "run/executor.h"

namespace cella::executor {

class ContainerExecutor : public run::Executor {
 public:
  // What the context refers to outlives the executor. Connects to an engine when the first guest is opened.
  explicit ContainerExecutor(confine::LaunchContext context) : context_(std::move(context)) {}

  async::Task<Result<std::unique_ptr<run::Guest>>> Open(run::GuestSpec spec, const RunSpec* only,
                                                        run::StopToken stop) override;

 private:
  // One container.
  async::Task<Result<std::unique_ptr<run::Guest>>> OpenOne(run::GuestSpec spec, const RunSpec* only,
                                                           run::StopToken stop, std::shared_ptr<CallListener> calls);
  // Ready for calls; what killed supervisors left with it has been removed.
  async::Task<Result<docker::Engine*>> EngineFor(const std::string& name);
  Result<ContainerSurroundings> Surroundings(const Policy& policy, const docker::Engine& engine);

  confine::LaunchContext context_;
  std::map<std::string, std::unique_ptr<docker::Engine>> engines_;  // by the name that the policy gives
  std::set<std::string> live_;                                      // containers that have a session
  uint32_t opened_ = 0;
};

}  // namespace cella::executor
