// One operation of runners/installer/installer.py in a jail of its own. Lives on the loop.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "environment/index_settings.h"
#include "environment/request.h"
#include "run/executor.h"
#include "run/stop.h"

namespace cella::installer {

// A line of progress: "Downloading numpy (16.1MiB)".
using Progress = std::function<void(std::string_view line)>;

struct InstallerJail {
  async::Loop& loop;
  run::Executor& executor;  // a sandbox that may show the store
  std::string script;       // the text of installer.py
};

struct Operation {
  const environment::BasePython& python;
  const nlohmann::ordered_json& request;
  bool network = false;
  environment::Variables variables;
  std::string writable;                // a directory of the store
  std::vector<std::string> read_only;  // files and directories
};

// The operation's answer. Errors: what uv or the script gave as the reason (kInvalid: these packages cannot be
// installed together; kUnsupported: everything else), or that the jail could not be built, or was stopped.
async::Task<Result<nlohmann::ordered_json>> Perform(InstallerJail& jail, Operation operation, Progress progress,
                                                    run::StopToken stop);

// Imports the modules, one after the other, with the Python of a finished environment and nothing else of the store.
async::Task<Status> ImportModules(InstallerJail& jail, std::string venv, std::vector<std::string> modules,
                                  run::StopToken stop);

}  // namespace cella::installer
