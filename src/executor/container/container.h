// One container of ours, from its creation to its removal. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "docker/engine.h"
#include "executor/container/bridge.h"
#include "run/stop.h"

namespace cella::executor {

// The label of every container of ours; its value names the owner (owner.h).
inline constexpr const char* kOwnerLabel = "cella.owner";
// Beside it, where the caller asked for the container to stay.
inline constexpr const char* kKeptLabel = "cella.kept";

class Container {
 public:
  // How a caller waits for an image.
  using Progress = std::function<void(const std::string& line)>;
  struct Waiting {
    run::StopToken stop;
    Progress progress;  // may be empty
  };
  // Creates it, after a pull if the image is missing. A container of ours that has its name and no session any more is
  // replaced. The engine and the set, which has the names of all containers with a session, outlive the container.
  static async::Task<Result<std::unique_ptr<Container>>> Create(async::Loop& loop, docker::Engine& engine,
                                                                std::set<std::string>& live, docker::ContainerSpec spec,
                                                                const ContainerPolicy& policy, Waiting waiting);
  // What the engine says that it has created.
  const docker::ContainerFacts& facts() const { return facts_; }

  // Starts it, and waits for its agent. After a failure there is still End.
  async::Task<Status> Start(bool is_session, jail::WatchLimits watch, std::shared_ptr<CallListener> calls);
  AgentBridge& bridge() { return *bridge_; }
  // From now on End leaves what the policy wants to keep; before, it removes the container.
  void Keep() { keeps_ = true; }

  // From outside, without waiting.
  void Destroy();
  // Ends what runs in it, and waits until the container is removed, has stopped, or stays alone with its agent.
  async::Task<void> End();

 private:
  Container(async::Loop& loop, docker::Engine& engine, std::set<std::string>& live)
      : loop_(loop), engine_(engine), live_(live), tasks_(loop) {}
  async::Task<Status> Create(docker::ContainerSpec spec, const ContainerPolicy& policy, const Waiting& waiting);
  async::Task<Status> Pull(const std::string& image, const Waiting& waiting);
  async::Task<Result<std::string>> CreateOnce(const docker::ContainerSpec& spec, const std::string& name);
  async::Task<Result<std::string>> CreateWithCopies(docker::ContainerSpec spec, const std::string& name);
  // Again, with copies of the programs.
  async::Task<Status> CreateAgain();
  async::Task<Status> StartOnce(bool is_session, jail::WatchLimits watch, std::shared_ptr<CallListener> calls);
  async::Task<void> RemoveAndWait(const std::string& id);
  // Removes the container of that name if it is ours and without a session. False: it is not.
  async::Task<bool> RemoveLeftover(const std::string& name, const std::string& owner);
  async::Task<void> Kill();
  async::Task<void> Stop();
  async::Task<void> EndContainer();

  async::Loop& loop_;
  docker::Engine& engine_;
  std::set<std::string>& live_;
  std::string name_;  // in the set because of this container
  std::string id_;
  std::string token_;                       // until the agent has taken it
  docker::ContainerSpec spec_;              // as it was created
  std::string asked_name_;                  // of the policy
  bool binds_programs_ = false;             // they are not copied
  bool auto_remove_ = true, stops_ = true;  // as the policy has it
  bool keeps_ = false;
  docker::ContainerFacts facts_;
  std::unique_ptr<AgentBridge> bridge_;
  async::TaskGroup tasks_;
};

// The value of --auth for an agent that asks for this token; "none" for an empty one.
Result<std::string> AuthArgument(const std::string& token);

}  // namespace cella::executor
