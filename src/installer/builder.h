// Builds environments: resolves a request, fetches its wheels, and installs them aside before it publishes them. uv
// runs in jails; what it has written is verified there, and nothing of a package runs. Lives on the loop.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/deadline.h"
#include "async/gate.h"
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

struct BuilderBounds {
  size_t installers = 4;               // jails at once
  uint64_t cache = uint64_t{8} << 30;  // bytes of downloaded wheels; above it the cache is emptied
};

struct BuilderSettings {
  std::string uv;  // the operator's own program; empty: the pinned one
  environment::IndexSettings index;
  environment::PackageRules rules;
  BuilderBounds bounds;
  bool source_builds = true;  // packages without a wheel are built from their source, in jails without network
};

class Builder {
 public:
  // `executor` is a sandbox that may show the store, and outlives this.
  Builder(async::Loop& loop, run::Executor& executor, environment::Store store, BuilderSettings settings,
          InstallerScripts scripts)
      : store_(std::move(store)),
        settings_(std::move(settings)),
        pool_(loop, {.threads = 1}),
        turn_(loop, settings_.bounds.installers),
        jail_{loop, executor, std::move(scripts), turn_, pool_} {}

  const environment::Store& store() const { return store_; }
  const environment::PackageRules& rules() const { return settings_.rules; }
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
  // A generation that BuildLayer made, by its path, and all of a layer.
  async::Task<void> RemoveGeneration(std::string directory);
  async::Task<void> RemoveLayer(environment::Store::Layer layer);
  // What the request resolves to, with all of its wheels in the cache. `preferred`: "name==version" of packages that
  // keep their version if they can.
  async::Task<Result<std::string>> Resolve(environment::Request request, std::vector<std::string> preferred,
                                           Progress progress, run::StopToken stop);

 private:
  // A package that has no wheel for this Python and machine.
  struct Source {
    std::string name;
    std::vector<std::string> specifiers;
  };
  struct Resolved {
    std::string lock;
    std::vector<Source> sources;  // not empty: there is no lock without them
    std::string why;              // of sources, as uv has it
  };
  enum class Sharing { kShared, kExclusive };
  // The packages whose builds need what is resolved or built here, from the first on.
  using Chain = std::vector<std::string>;

  async::Task<Result<environment::StoreLock>> Lock(std::string name, run::StopToken stop,
                                                   Sharing sharing = Sharing::kExclusive);
  async::Task<Result<std::string>> Uv(const environment::BasePython& python, Progress progress, run::StopToken stop);
  async::Task<Result<Resolved>> ResolveInStaging(const environment::Request& request, std::string lock,
                                                 const std::vector<std::string>& preferred,
                                                 const std::vector<std::string>& built, Progress progress,
                                                 run::StopToken stop);
  async::Task<Result<std::string>> ResolveWithSources(const environment::Request& request,
                                                      const std::vector<std::string>& preferred, Progress progress,
                                                      run::StopToken stop, Chain chain);
  enum class Whose { kClients, kOurs };
  async::Task<Result<environment::Ready>> BuildAt(environment::Request request, Progress progress, run::StopToken stop,
                                                  Chain chain, Whose whose = Whose::kClients);
  // Of a lock to staging/ID/venv or staging/ID/layer; what the cache lost is fetched once more.
  async::Task<Result<nlohmann::ordered_json>> InstallInStaging(const char* operation,
                                                               const environment::BasePython& python,
                                                               const std::string& lock,
                                                               const environment::Store::Staging& staging,
                                                               Progress progress, run::StopToken stop);
  async::Task<Result<environment::Ready>> Install(const environment::BasePython& python, const std::string& lock,
                                                  std::vector<std::string> requested, Progress progress,
                                                  run::StopToken stop);
  // source_builds.cc: the wheel of a source, as its key below the store's `built`.
  async::Task<Result<std::string>> BuildSource(const environment::BasePython& python, const Source& source,
                                               Progress progress, run::StopToken stop, Chain chain);
  async::Task<Result<environment::Ready>> BuildRequirements(const environment::BasePython& python,
                                                            const std::vector<std::string>& texts,
                                                            const std::string& package, Progress progress,
                                                            run::StopToken stop, Chain chain);
  async::Task<void> TrimCache();

  environment::Store store_;
  BuilderSettings settings_;
  bool refresh_ = false;
  async::TimePoint trimmed_{};
  async::BlockingPool pool_;
  async::Gate turn_;
  InstallerJail jail_;
};

// "numpy, pandas"
std::string NamesOf(const std::vector<environment::Requirement>& packages);

}  // namespace cella::installer
