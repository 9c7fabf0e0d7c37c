// Packages that sessions add, for programs that host sessions: the store, the builder (started when it is first
// needed), and what each session added. Lives on the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/gate.h"
#include "async/task.h"
#include "async/task_group.h"
#include "base/result.h"
#include "cella/policy.h"
#include "environment/allow_list.h"
#include "environment/store.h"
#include "executor/subprocess/kernel_environments.h"
#include "installer/builder_home.h"
#include "installer/session_layer.h"
#include "language/code_trust.h"
#include "run/executor.h"
#include "run/host_calls.h"
#include "run/stop.h"

namespace cella::installer {

// What is held while the installer works for a client; an Error: the client may have no more of it now. Empty: none is
// needed.
using Permit = std::function<Result<std::shared_ptr<void>>()>;
inline Result<std::shared_ptr<void>> TakePermit(const Permit& permit) {
  if (permit) return permit();
  return nullptr;
}

// Close it after the last session.
class PackageService : public executor::KernelEnvironments {
 public:
  struct Settings {
    std::string state_dir;  // of the host
    bool of_the_user;       // environments are the user's, whose commands share them
    environment::PackageRules rules;
    std::vector<std::string> guest_writable{};  // real paths of all that guests may write to; unless of_the_user
    BuilderBounds bounds{};
    bool source_builds = true;
  };

  // Without a store there are no packages; why() has the reason. Not to be called while another thread changes the
  // environment.
  PackageService(async::Loop& loop, Settings settings);

  async::Loop& loop() { return loop_; }
  const environment::PackageRules& rules() const { return settings_.rules; }
  // For what blocks on the store.
  async::BlockingPool& pool() { return pool_; }
  // Why there is no store; null: there is one.
  const Error* why() const { return store_ ? nullptr : &why_; }
  // There is one.
  const environment::Store& store() const { return *store_; }
  // For the engines; empty: there is no store.
  std::string layers() const { return store_ ? store_->layers() : ""; }
  std::string ready() const { return store_ ? store_->ready() : ""; }

  // A layer for a session with this policy and interpreter.
  async::Task<Result<std::unique_ptr<SessionLayer>>> Open(Policy policy, std::vector<std::string> configured,
                                                          run::GuestPython python, SessionLayer::Use use);
  async::Task<Result<Builder*>> StartBuilder();
  // The interpreter that an environment rests on, from what a client wrote. Blocks while one is asked.
  // `required`: specifiers of requires-python.
  Result<environment::BasePython> BaseFor(const std::string& python, const std::string& required = "") const;
  // An environment with ipykernel (kernel_environments.cc). Once no index could be reached, it is not asked for a
  // minute.
  async::Task<Result<executor::KernelEnvironment>> Find(executor::KernelPackages packages,
                                                        run::StopToken stop) override;
  async::Task<void> Close();

 private:
  Result<environment::Request> RequestOf(const executor::KernelPackages& packages) const;
  Result<LayerBase> BaseOf(const Policy& policy, const run::GuestPython& guest) const;

  async::Loop& loop_;
  const Settings settings_;
  language::GuestDirectories guests_;
  std::optional<environment::Store> store_;
  Error why_;
  async::Gate starting_;
  async::BlockingPool pool_;
  std::unique_ptr<BuilderHome> home_;
  std::optional<Error> unreachable_;  // why the last kernel environment that failed could not be built
  std::string unreachable_key_;       // of its request
  async::TimePoint asks_again_at_;
};

// Of one session. It serves the namespace `deps` to the guest (runners/README.md), and the layer to others.
class SessionPackages : public run::HostCallHandler {
 public:
  SessionPackages(PackageService& service, Policy policy, std::vector<std::string> configured, bool allows_changes,
                  Permit permit = {});

  using Describe = std::function<async::Task<Result<run::GuestPython>>()>;
  // When the session exists: what takes the directory of each change, and what describes its interpreter.
  void Attach(SessionLayer::Use use, Describe describe) {
    use_ = std::move(use);
    describe_ = std::move(describe);
  }
  // False: the packages are locked; those that were configured can be installed all the same.
  bool allows_changes() const { return allows_changes_; }
  // Makes the layer, if it is not there.
  async::Task<Status> Open();
  // Null until Open.
  SessionLayer* layer() { return layer_.get(); }
  Result<std::shared_ptr<void>> TakePermit() { return installer::TakePermit(permit_); }
  run::StopToken stop() { return stop_.token(); }

  async::Task<run::HostReply> Serve(run::HostCall call) override;
  bool HasOperations() const override { return allows_changes_ || !configured_.empty(); }

  // Ends the changes that are on.
  void Stop() { (void)stop_.Request(StopReason::kClosing); }
  // After Stop, and after the session's guest has ended.
  async::Task<void> Close();

 private:
  struct Change;
  async::Task<void> Perform(std::shared_ptr<Change> change, std::string operation, std::vector<std::string> words);
  async::Task<Result<std::string>> Apply(const std::string& operation, std::vector<std::string> words,
                                         Progress progress, run::StopToken stop);

  PackageService& service_;
  const Policy policy_;
  const std::vector<std::string> configured_;
  const bool allows_changes_;
  const Permit permit_;
  SessionLayer::Use use_;
  Describe describe_;
  async::Gate opening_;
  std::unique_ptr<SessionLayer> layer_;
  run::StopSource stop_;
  async::TaskGroup changes_;  // that the guest asked for
};

}  // namespace cella::installer
