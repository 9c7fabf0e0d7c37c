// Environments for programs that host sessions: made once for all that ask, known by name to their owners, and counted
// for them. An owner is a client of a server; the user's own environments have none, and are shared with `cella env`.
// Lives on the loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "async/task_group.h"
#include "base/result.h"
#include "cella/policy.h"
#include "environment/store.h"
#include "installer/session_packages.h"
#include "run/stop.h"

namespace cella::installer {

// Of one owner. Absent: not bounded.
struct EnvironmentBounds {
  std::optional<uint64_t> environments;
  std::optional<uint64_t> bytes;  // of all their files, also of those that environments share
};

struct EnvironmentRequest {
  std::string owner{};
  EnvironmentChoice choice{};
  std::string requires_python{};  // specifiers that the interpreter must meet (PEP 723)
  bool replace = false;           // of that name
  EnvironmentBounds bounds{};
  Permit permit{};  // of the owner, to build
};

struct EnvironmentStatus {
  enum class State { kBuilding, kReady, kFailed };
  State state = State::kBuilding;
  environment::NamedEnvironment named;
  std::optional<environment::StoredEnvironment> stored{};  // kReady
  Error error{};                                           // kFailed: why
  std::string progress{};                                  // kBuilding: the last line of the installer
};

class Environments {
 public:
  explicit Environments(PackageService& packages);

  // Begins to make an environment under the name of the choice. kInvalid: the name is taken, or the packages are no
  // requirements; kExhausted: the owner has as many as the bounds permit.
  async::Task<Status> Begin(EnvironmentRequest request);
  // Waits until it is not being made any more. kNotFound: there is none of that name.
  async::Task<Result<EnvironmentStatus>> Wait(std::string owner, std::string name);
  async::Task<Result<EnvironmentStatus>> Find(std::string owner, std::string name);
  // The owner's, and those that all clients see.
  async::Task<Result<std::vector<EnvironmentStatus>>> List(std::string owner);
  // Also ends what makes it. Sessions that use it keep it. kPermission: it is the operator's.
  async::Task<Status> Remove(std::string owner, std::string name);

  struct Used {
    environment::Ready ready;
    std::vector<std::string> preload;
  };
  // The environment of a session: a finished one by its name, or one with these packages, which is made if it is not
  // there.
  async::Task<Result<Used>> Use(EnvironmentRequest request);

  // Ends all that is being made. Before the packages are closed.
  async::Task<void> Close();

 private:
  struct Build;
  struct SharedBuild;
  using Key = std::pair<std::string, std::string>;  // owner, name

  std::shared_ptr<Build> BuildOf(const std::string& owner, const std::string& name) const;
  async::Task<void> Make(std::shared_ptr<Build> build, EnvironmentRequest request, std::shared_ptr<void> permit);
  async::Task<Status> MakeNamed(Build& build, const EnvironmentRequest& request);
  async::Task<Result<Used>> UseNamed(const EnvironmentRequest& request);
  async::Task<Result<Used>> UsePackages(const EnvironmentRequest& request);
  // Makes packages once for all that ask for them meanwhile. Only the first one needs the permit of its owner.
  async::Task<Result<std::shared_ptr<SharedBuild>>> BuildOnce(const EnvironmentRequest& request,
                                                              environment::Request wanted);
  async::Task<void> MakeShared(std::shared_ptr<SharedBuild> build, std::string key, EnvironmentRequest request,
                               environment::Request wanted, std::shared_ptr<void> permit);
  async::Task<Result<environment::Request>> RequestFor(const EnvironmentRequest& asked);
  async::Task<Result<environment::Ready>> BuildPackages(const EnvironmentRequest& request, environment::Request wanted,
                                                        Progress progress, run::StopToken stop);
  // Drops an environment that its owner may not keep, unless another owner has it.
  async::Task<void> Forget(environment::Ready ready);
  void ForgetOldFailures(const std::string& owner);
  size_t BuildingOf(const std::string& owner) const;

  PackageService& packages_;
  std::map<Key, std::shared_ptr<Build>> builds_;                       // that are on, or have failed
  std::map<std::string, std::shared_ptr<SharedBuild>> shared_builds_;  // that are on
  async::TaskGroup tasks_;
  run::StopSource stop_;
};

}  // namespace cella::installer
