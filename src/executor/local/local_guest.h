// A session of the local executor: one directory and one watched process tree for all its runs. Each block is a program
// of its own, and ends with all that it started.
#pragma once

#include "confine/program_guest.h"
#include "executor/local/local_executor.h"
#include "executor/local/scratch.h"

namespace cella::executor {

class LocalGuest : public confine::ProgramGuest, public run::CallSocket, public run::Packages {
 public:
  // Without a workdir of the policy's, `scratch` is the workspace. `host` outlives the guest.
  static async::Task<Result<std::unique_ptr<run::Guest>>> Open(confine::LaunchContext& context, const LocalHost& host,
                                                               LocalScratch scratch, run::GuestSpec spec);

  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override;

  run::Packages* packages() override { return MayAddPackages() ? this : nullptr; }
  // Programs read the packages where they are on the host.
  async::Task<Result<std::string>> Use(std::string directory) override;

 protected:
  LocalGuest(confine::LaunchContext& context, const LocalHost& host, LocalScratch scratch, run::GuestSpec spec)
      : confine::ProgramGuest(context, std::move(spec)), host_(host), scratch_(std::move(scratch)) {}

  // Makes the directories and the tree, and describes them as those of `executor`.
  async::Task<Status> Start(confine::LimitPlan limits, std::string_view executor);
  async::Task<Status> StartTree();
  std::string CallSocketPath() const { return scratch_.path() + "/calls"; }

  async::Task<Status> Prepare(const run::BlockTurn& turn) override;
  async::Task<Result<language::Plan>> PlanFor(const run::BlockTurn& turn) override;
  confine::EnvVars Variables(const language::Plan& plan) const override;
  void AddToVariables(confine::EnvVars* variables) const override;

 private:
  Status OpenDirectories();
  bool MayAddPackages() const;
  // Leads to the packages of the session; runners/python/cella_runner/packages.py changes it too.
  std::string PackagesLink() const { return scratch_.path() + "/.cella-packages"; }

  const LocalHost& host_;
  LocalScratch scratch_;
  std::string programs_;  // where compiled programs go
};

}  // namespace cella::executor
