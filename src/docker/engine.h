// The calls of the Docker Engine API that Cella uses. On the loop; calls may overlap, each has a connection of its own.
// An Error's message is for people: what failed, the engine's own words, and the remedy where there is one. kNotFound
// with ECONNREFUSED: no engine answers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "docker/attached_stream.h"
#include "docker/container_spec.h"
#include "docker/engine_address.h"

namespace cella::docker {

struct ContainerSummary {
  std::string id;
  std::string name;
  std::string state;
  std::map<std::string, std::string> labels;
};

class Engine {
 public:
  // Connects with the first call. The loop outlives the engine.
  Engine(async::Loop& loop, EngineAddress address);

  const EngineAddress& address() const { return address_; }
  const std::string& api_version() const { return api_version_; }
  bool is_podman() const { return is_podman_; }
  // User 0 of its containers is the engine's own user, and not root of the machine. Known after Negotiate.
  bool is_rootless() const { return is_rootless_; }

  // Asks whether the engine answers and which version of the API it speaks. Every other call comes after it.
  async::Task<Status> Negotiate();

  async::Task<Result<bool>> HasImage(const std::string& image);
  // `on_progress` gets lines for people. kClosed: no progress for `patience`.
  async::Task<Status> Pull(const std::string& image, std::chrono::nanoseconds patience,
                           const std::function<void(const std::string& line)>& on_progress);

  // The id. kNotFound without an errno: no such image. `name` may be empty.
  async::Task<Result<std::string>> Create(const ContainerSpec& spec, const std::string& name);
  // Before Start, so that nothing is missed.
  async::Task<Result<AttachedStream>> Attach(const std::string& id);
  async::Task<Status> Start(const std::string& id);
  async::Task<Result<ContainerFacts>> Inspect(const std::string& id);
  // Waits until it is removed. Cancel it to stop waiting.
  async::Task<Status> WaitRemoved(const std::string& id);
  // Waits until it does not run.
  async::Task<Status> WaitStopped(const std::string& id);
  async::Task<Status> Kill(const std::string& id);
  // With its anonymous volumes, also while it runs. One that is gone is fine.
  async::Task<Status> Remove(const std::string& id);
  // Unpacks a tar archive below `path`, in a container that may not have started yet.
  async::Task<Status> PutArchive(const std::string& id, const std::string& path, std::string tar);
  // Those with this label ("KEY" or "KEY=VALUE"), stopped ones included.
  async::Task<Result<std::vector<ContainerSummary>>> List(const std::string& label);

 private:
  http::Client MakeClient(std::chrono::nanoseconds silence) const;
  async::Task<Result<http::ClientResponse>> Call(std::string method, std::string path, std::string body,
                                                 std::chrono::nanoseconds silence);
  async::Task<Status> Wait(const std::string& id, const char* condition);
  async::Task<bool> AskRootless();
  std::string Path(const std::string& path) const;

  async::Loop& loop_;
  EngineAddress address_;
  std::string api_version_;
  bool is_podman_ = false;
  bool is_rootless_ = false;
};

}  // namespace cella::docker
