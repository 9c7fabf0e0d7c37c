// What the operations of the API work with: one value that refers to the parts of a running server. Lives on the loop.
// Only declarations: a file includes what it uses of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "cella/policy.h"
#include "server/config.h"

namespace cella::engine {
struct Engine;
}
namespace cella::installer {
class Environments;
class PackageService;
}  // namespace cella::installer
namespace cella::registry {
class Registry;
}
namespace cella::storage {
class Service;
}

namespace cella::server {

class HostedSessions;
class Log;
class Metrics;
class Quota;

// An executor of each kind that the configuration allows; absent: it does not.
struct Engines {
  Engines();
  ~Engines();
  std::unique_ptr<engine::Engine> by_kind[kExecutorCount];

  engine::Engine* Find(ExecutorKind kind) const { return by_kind[IndexOf(kind)].get(); }
};

struct Hub {
  async::Loop& loop;
  const Config& config;
  Engines& engines;
  registry::Registry& registry;
  Quota& quota;
  Metrics& metrics;
  Log& log;
  HostedSessions& sessions;
  async::BlockingPool& work;  // reads large bodies and renders large results: nothing that waits
  installer::PackageService& packages;
  installer::Environments& environments;
  storage::Service& storages;
  std::function<size_t()> connections;  // that are open
  bool draining = false;

  std::string RunsDirectory() const { return config.server.state_dir + "/runs"; }
};

}  // namespace cella::server
