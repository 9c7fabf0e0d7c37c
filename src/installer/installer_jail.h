// One operation of an installer's script (runners/installer) in a jail of its own. Lives on the loop.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "async/task.h"
#include "base/result.h"
#include "environment/index_settings.h"
#include "environment/request.h"
#include "run/executor.h"
#include "run/stop.h"

namespace cella::installer {

// A line of progress: "Downloading numpy (16.1MiB)".
using Progress = std::function<void(std::string_view line)>;

// The texts of the files in runners/installer.
struct InstallerScripts {
  std::string installer;     // installer.py
  std::string sources;       // sources.py
  std::string build_source;  // build_source.py
};

struct InstallerJail {
  async::Loop& loop;
  run::Executor& executor;  // a sandbox that may show the store
  InstallerScripts scripts;
  async::Gate& turn;  // how many jails there may be at once
  async::BlockingPool& pool;
};

enum class InstallerScript { kInstaller, kSources };

struct Operation {
  const environment::BasePython& python;
  const nlohmann::ordered_json& request;
  bool network = false;
  environment::Variables variables;
  std::string writable;                // a directory of the store
  std::vector<std::string> read_only;  // files and directories
  InstallerScript script = InstallerScript::kInstaller;
};

// The operation's answer. Errors: what uv or the script gave as the reason (kInvalid: these packages cannot be
// installed together; kUnsupported: everything else), or that the jail could not be built, or was stopped.
async::Task<Result<nlohmann::ordered_json>> Perform(InstallerJail& jail, Operation operation, Progress progress,
                                                    run::StopToken stop);

// Imports the modules, one after the other, with the Python of a finished environment and nothing else of the store.
async::Task<Status> ImportModules(InstallerJail& jail, std::string venv, std::vector<std::string> modules,
                                  run::StopToken stop);

// The build of a source package: foreign code. Its jail shows the environment and the source, and nothing else of the
// host: no network, cache, workspace of a client, home or token.
struct SourceBuildJob {
  std::string package;             // for messages: "docopt 0.6.2"
  std::string venv;                // with what the build needs
  std::string source, file;        // a directory, and the archive in it
  std::string backend;             // "setuptools.build_meta"
  std::vector<std::string> paths;  // of the backend, in the source
  std::string place;               // a directory that takes the wheel
};
struct SourceBuild {
  std::vector<std::string> requires_more;  // not empty: nothing was built, because it needs these too
};
async::Task<Result<SourceBuild>> RunSourceBuild(InstallerJail& jail, SourceBuildJob job, Progress progress,
                                                run::StopToken stop);

}  // namespace cella::installer
