// The options that name an environment or packages, and what becomes of them: a finished environment that the policy
// uses. The same for one-shot runs and the REPL.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "confine/host_shares.h"
#include "environment/store.h"

namespace CLI {
class App;
}

namespace cella::cli {

struct PackageOptions {
  std::string environment;                // a name
  std::vector<std::string> with;          // requirements
  std::vector<std::string> requirements;  // files of them
  bool refresh = false;
};

struct UsedEnvironment {
  std::optional<environment::Ready> ready;  // empty: no packages were asked for
  std::vector<std::string> preload;
  confine::OpenedPaths opened;  // what the engine may show of the store
};

// Who sees the lines of an installation besides the terminal.
struct InstallView {
  std::function<void(std::string_view line)> show;
  std::function<async::Task<void>()> finish;  // until all of them were seen
};

void DeclarePackageOptions(CLI::App& command, PackageOptions* options);

// `script`: the code whose metadata block (PEP 723) counts; empty: there is none. Sets the environment of the policy.
// Builds it if it is not there, and shows progress on standard error.
Result<UsedEnvironment> UseEnvironment(async::Loop& loop, const PackageOptions& options, std::string_view script,
                                       Policy* policy, const InstallView& view = {});

struct MadeEnvironment {
  environment::Ready ready;
  std::string python;  // the interpreter that it rests on
};

// An environment with these packages, whose `preload` modules can be imported.
Result<MadeEnvironment> MakeEnvironment(async::Loop& loop, const PackageOptions& options, const Policy& policy,
                                        const std::vector<std::string>& preload);

}  // namespace cella::cli
