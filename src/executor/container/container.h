// One container of ours, from its creation to its removal. Lives on the loop.
#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "docker/engine.h"
#include "executor/container/bridge.h"

namespace cella::executor {

// The label of every container of ours; its value names the owner (owner.h).
inline constexpr const char* kOwnerLabel = "cella.owner";
// Beside it, where the caller asked for the container to stay.
inline constexpr const char* kKeptLabel = "cella.kept";

class Container {
 public:
  // Creates it, after a pull if the image is missing. The engine outlives the container.
  static async::Task<Result<std::unique_ptr<Container>>> Create(async::Loop& loop, docker::Engine& engine,
                                                                docker::ContainerSpec spec,
                                                                const ContainerPolicy& policy);
  // What the engine says that it has created.
  const docker::ContainerFacts& facts() const { return facts_; }

  // Starts it, and waits for its agent. After a failure there is still End.
  async::Task<Status> Start(bool is_session, jail::WatchLimits watch);
  AgentBridge& bridge() { return *bridge_; }

  // From outside, without waiting.
  void Destroy();
  // Ends it and waits until it is removed.
  async::Task<void> End();

 private:
  Container(async::Loop& loop, docker::Engine& engine) : loop_(loop), engine_(engine), tasks_(loop) {}
  async::Task<Status> Create(docker::ContainerSpec spec, const ContainerPolicy& policy);
  async::Task<Result<std::string>> CreateOnce(docker::ContainerSpec& spec, const ContainerPolicy& policy);
  async::Task<void> Kill();

  async::Loop& loop_;
  docker::Engine& engine_;
  std::string id_;
  std::string token_;  // until it was sent
  docker::ContainerFacts facts_;
  std::unique_ptr<AgentBridge> bridge_;
  async::TaskGroup tasks_;
};

// The value of --auth for an agent that asks for this token; "none" for an empty one.
Result<std::string> AuthArgument(const std::string& token);

}  // namespace cella::executor
