// What the operations of the API work with: one value that refers to the parts of a running server. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "async/task.h"
#include "language/table.h"
#include "server/config.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/quota.h"
#include "session/engine.h"
#include "session/registry.h"

namespace cella::server {

class HostedSessions;

// An executor of each kind that the configuration allows; absent: it does not.
struct Engines {
  std::unique_ptr<session::Engine> sandbox;
  std::unique_ptr<session::Engine> local;

  session::Engine* Find(ExecutorKind kind) const { return kind == ExecutorKind::kLocal ? local.get() : sandbox.get(); }
};

struct Hub {
  async::Loop& loop;
  const Config& config;
  Engines& engines;
  session::Registry& registry;
  Quota& quota;
  Metrics& metrics;
  Log& log;
  HostedSessions& sessions;
  std::function<size_t()> connections;  // that are open
  bool draining = false;

  std::string RunsDirectory() const { return config.server.state_dir + "/runs"; }
};

}  // namespace cella::server
