// Builds environments: resolves a request, fetches its wheels, and installs them aside before it publishes them. uv
// runs in jails; what it has written is verified there, and nothing of a package runs. Lives on the loop.
#pragma once

#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "base/result.h"
#include "environment/allow_list.h"
#include "environment/index_settings.h"
#include "environment/request.h"
#include "environment/store.h"
#include "installer/installer_jail.h"
#include "run/executor.h"
#include "run/stop.h"

namespace cella::installer {

struct BuilderSettings {
  std::string uv;  // the operator's own program; empty: the pinned one
  environment::IndexSettings index;
  environment::PackageRules rules;
};

class Builder {
 public:
  // `executor` is a sandbox that may show the store, and outlives this; `script` is the text of installer.py.
  Builder(async::Loop& loop, run::Executor& executor, environment::Store store, BuilderSettings settings,
          std::string script)
      : jail_{loop, executor, std::move(script)},
        store_(std::move(store)),
        settings_(std::move(settings)),
        pool_(loop, {.threads = 1}) {}

  const environment::Store& store() const { return store_; }
  // Whether requests are resolved again although it is known what they were resolved to.
  void set_refresh(bool refresh) { refresh_ = refresh; }

  // The finished environment; from the store if it is there. The error names the packages.
  async::Task<Result<environment::Ready>> Build(environment::Request request, Progress progress, run::StopToken stop);
  // The same for packages of ours, which the operator's rules do not concern.
  async::Task<Result<environment::Ready>> BuildOurs(environment::Request request, Progress progress,
                                                    run::StopToken stop);
  // From a lock that was made before.
  async::Task<Result<environment::Ready>> BuildLock(environment::BasePython python, std::string lock,
                                                    std::vector<std::string> requested, Progress progress,
                                                    run::StopToken stop);
  // Imports the modules in a jail without network, with the environment's Python. The error names the module that
  // fails.
  async::Task<Status> CheckPreload(const environment::Ready& ready, std::vector<std::string> modules,
                                   run::StopToken stop);
  // A directory with the packages of a lock whose wheels are in the cache, as generation `number` of a layer. The
  // result is its path below the store's layers, and the bytes in it.
  struct BuiltLayer {
    std::string directory;
    uint64_t bytes = 0;
  };
  async::Task<Result<BuiltLayer>> BuildLayer(environment::BasePython python, std::string lock,
                                             const environment::Store::Layer& layer, uint64_t number, Progress progress,
                                             run::StopToken stop);
  // What the request resolves to, with all of its wheels in the cache. `preferred`: "name==version" of packages that
  // keep their version if they can.
  async::Task<Result<std::string>> Resolve(environment::Request request, std::vector<std::string> preferred,
                                           Progress progress, run::StopToken stop);

 private:
  async::Task<Result<environment::StoreLock>> Lock(std::string name, run::StopToken stop);
  async::Task<Result<std::string>> Uv(const environment::BasePython& python, Progress progress, run::StopToken stop);
  async::Task<Result<std::string>> ResolveInStaging(const environment::Request& request, std::string lock,
                                                    const std::vector<std::string>& preferred, Progress progress,
                                                    run::StopToken stop);
  async::Task<Result<environment::Ready>> Install(const environment::BasePython& python, const std::string& lock,
                                                  std::vector<std::string> requested, Progress progress,
                                                  run::StopToken stop);

  InstallerJail jail_;
  environment::Store store_;
  BuilderSettings settings_;
  bool refresh_ = false;
  async::BlockingPool pool_;
};

// "numpy, pandas"
std::string NamesOf(const std::vector<environment::Requirement>& packages);

}  // namespace cella::installer
