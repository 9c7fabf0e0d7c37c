// A builder with the jails that it needs, as commands and servers start it: uv, index and certificates come from the
// operator's files and variables.
#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "engine/engine.h"
#include "installer/builder.h"
#include "language/host_env.h"

namespace cella::installer {

// Where commands keep environments: CELLA_STATE_DIR, else the user's state directory. Error: there is none.
Result<std::string> CommandStateDirectory();

// The identity of the operator's index is part of every request. Not to be called while another thread changes the
// environment.
Result<environment::IndexSettings> OperatorIndex();

// The user decides with CELLA_SOURCE_BUILDS=off that nothing is built from its source.
bool UserPermitsSourceBuilds();

// The environment variables of this process, with a way to ask programs about themselves.
Result<language::HostEnv> AskingHost(const std::string& state_dir);

class BuilderHome {
 public:
  struct Rules {
    environment::PackageRules packages{};
    BuilderBounds bounds{};
    bool source_builds = true;
  };
  static Result<std::unique_ptr<BuilderHome>> Open(async::Loop& loop, environment::Store store,
                                                   environment::IndexSettings index, Rules rules);
  Builder& builder() { return *builder_; }
  // After the last build.
  async::Task<void> Close() { return engine_->executor->Close(); }

 private:
  BuilderHome() = default;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Builder> builder_;
};

}  // namespace cella::installer
