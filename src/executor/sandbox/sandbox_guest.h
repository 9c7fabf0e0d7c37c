// A session in a jail of its own: runners that keep state (Python forked from a zygote and checkpointed; JavaScript and
// Bash started on first use), other languages as programs beside them, one workspace for all. In three files: blocks
// (sandbox_guest.cc), runners (guest_runners.cc), checkpoints (guest_checkpoints.cc).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/ready_set.h"
#include "async/task_group.h"
#include "confine/empty_jail.h"
#include "confine/limits.h"
#include "confine/workspace.h"
#include "executor/sandbox/cell_execution.h"
#include "executor/sandbox/runner.h"
#include "executor/sandbox/warm_environment.h"
#include "os/io.h"
#include "run/executor.h"

namespace cella::executor {

class SandboxGuest : public run::Guest,
                     public run::Checkpoints,
                     public run::Assistant,
                     public run::Resettable,
                     public run::Packages,
                     public run::CallSocket {
 public:
  // Takes the jail over. `only`: for this one program; null: for a session, whose Python runner is started.
  static async::Task<Result<std::unique_ptr<SandboxGuest>>> Open(confine::LaunchContext& context,
                                                                 std::shared_ptr<WarmEnvironment> warm,
                                                                 std::unique_ptr<confine::EmptyJail> jail,
                                                                 confine::LimitPlan limit_plan, run::GuestSpec spec,
                                                                 const RunSpec* only = nullptr);

  // Runs an empty cell, after which the interpreter has touched what any first run touches.
  async::Task<void> Warm();
  // Nothing has run and the interpreter lives.
  bool IsFresh();

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  std::string LanguageOf(const RunSpec& run, const Block& block) const override;
  bool takes_values(std::string_view language) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;

  run::Checkpoints* checkpoints() override { return this; }
  async::Task<Status> Save(const std::string& name) override;
  async::Task<Status> Rollback(const std::string& name) override;
  Status Drop(const std::string& name) override;
  std::vector<std::string> List() const override;

  run::Assistant* assistant() override { return this; }
  async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                       size_t cursor) override;

  run::Resettable* resettable() override { return this; }
  async::Task<Status> Reset() override;

  run::Packages* packages() override { return context_.layers.empty() ? nullptr : this; }
  async::Task<Result<std::string>> Use(std::string directory) override;

  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override { return jail_->jail.Listen(); }

  const os::Directory* workspace() const override { return &files_.directory(); }
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<run::GuestUsage> MeasureUsage() override;

 private:
  SandboxGuest(confine::LaunchContext& context, std::shared_ptr<WarmEnvironment> warm,
               std::unique_ptr<confine::EmptyJail> jail, confine::LimitPlan limit_plan, run::GuestSpec spec,
               async::ReadySet ready);

  static constexpr const char* kCwd = "/workspace";
  static Error JailEnded();

  // Through the namespace that is for it.
  bool CanAddPackages() const;
  async::Task<Status> EnsureRunner(const std::string& language);
  async::Task<bool> JailIsEnding();
  async::Task<Status> OpenEntry();
  async::Task<Result<Runner>> ForkRunner();
  async::Task<Result<Runner>> ExecRunner(const std::string& language);
  async::Task<Result<std::unique_ptr<run::Execution>>> BeginCell(const std::string& language,
                                                                 const run::BlockTurn& turn, run::StopToken stop);
  async::Task<Status> WriteInputs(const run::BlockTurn& turn);
  async::Task<Result<std::unique_ptr<run::Execution>>> BeginProgram(const run::BlockTurn& turn);
  Result<std::unique_ptr<run::Execution>> ExecProgram(const run::BlockTurn& turn, language::Plan plan,
                                                      const confine::EnvVars& env);
  async::Task<Result<std::unique_ptr<run::Execution>>> ForkProgram(const run::BlockTurn& turn,
                                                                   const language::Plan& plan,
                                                                   const confine::EnvVars& env);
  async::Task<Result<WarmEnvironment::Newborn>> ForkInto(std::span<const int, 3> stdio, int session);
  async::Task<run::StateReport> AfterCell(const run::RunFacts& facts);
  async::Task<StateAfter> Recover(const std::string& language);
  // With a name (empty: the automatic one): waits for that checkpoint, whose status is the answer.
  async::Task<Result<std::string>> Exchange(Runner& runner, std::string payload,
                                            std::optional<std::string> checkpoint_name);
  async::Task<Status> KillEverybody();
  // Waits until `arrived` is true of the reports that init has sent. An Error: the jail has ended, or init is held up.
  async::Task<Status> AwaitReport(std::function<bool()> arrived);
  async::Task<Status> AskForCheckpoint(Runner& runner, const std::string& name);

  Runner Promote(RunnerCopy copy, const std::shared_ptr<Zygote>& zygote);
  void Watch(Runner* runner);
  std::string FirstCheckpoint() const;
  async::Task<void> Settle(Runner& runner);
  async::Task<void> StopSettling();
  void Discard(Runner* runner);
  void OnCheckpoint(const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy);

  confine::LaunchContext& context_;
  std::shared_ptr<WarmEnvironment> warm_;
  std::unique_ptr<confine::EmptyJail> jail_;
  confine::LimitPlan limit_plan_;
  run::GuestSpec spec_;
  std::vector<std::pair<std::string, std::string>> env_;
  std::string search_path_;
  Isolation isolation_;
  confine::Workspace files_;
  os::Pipe out_;
  os::Pipe err_;
  async::ReadySet ready_;
  os::CgroupMeter meter_;
  CellContext cells_;
  Runner* watched_ = nullptr;              // whose descriptors are in the set
  std::map<std::string, Runner> runners_;  // by language
  std::optional<RunnerCopy> checkpoint_;   // the automatic one
  std::string checkpoint_status_;          // what stands behind the next run
  std::map<std::string, RunnerCopy> named_;
  std::vector<std::string> value_files_;  // of the block that is on
  std::string packages_;                  // directory of the layer inside; empty: there is none
  std::string arrived_;                   // status of the last named checkpoint that was asked for
  std::string asked_name_;                // of the checkpoint that was asked for last
  // Of the block that is on: the language of its runner; empty: it is a program. And the state that its run began with.
  std::string block_language_;
  StateAfter found_ = StateAfter::kKept;
  async::TaskGroup settling_;
  bool settled_badly_ = false;
  bool alone_ = false;           // for one program
  bool lists_files_ = true;      // of the run that is on
  bool checkpoint_due_ = false;  // of the last run; the one that is there is older
  bool lost_ = false;            // the jail itself ended
};

}  // namespace cella::executor
