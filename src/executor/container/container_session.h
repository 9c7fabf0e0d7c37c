// A session in a container: runners that keep state (Python with checkpoints, JavaScript and Bash, each started on
// first use by the image's interpreter), other languages as programs beside them. When an interpreter ends that has no
// checkpoint, its variables are lost, and the next run has a new one. Lives on the loop. In two files: blocks and
// runners (container_session.cc), checkpoints (container_checkpoints.cc).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/ready_set.h"
#include "confine/env_vars.h"
#include "confine/jail.h"
#include "confine/launch_context.h"
#include "confine/limits.h"
#include "confine/program_execution.h"
#include "executor/container/container.h"
#include "executor/container/container_files.h"
#include "executor/sandbox/cell_execution.h"
#include "executor/sandbox/runner.h"
#include "os/io.h"
#include "run/executor.h"

namespace cella::executor {

class ContainerSession : public run::Guest,
                         public run::Checkpoints,
                         public run::Assistant,
                         public run::Resettable,
                         public run::Packages,
                         public run::CallSocket {
 public:
  // The container runs, and its init serves several programs.
  static async::Task<Result<std::unique_ptr<run::Guest>>> Open(confine::LaunchContext& context, run::GuestSpec spec,
                                                               std::unique_ptr<Container> container,
                                                               confine::LimitPlan limits, Isolation isolation,
                                                               run::StopToken stop);

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  std::string LanguageOf(const RunSpec& run, const Block& block) const override;
  bool takes_values(std::string_view language) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<run::GuestUsage> MeasureUsage() override;

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
  run::Packages* packages() override { return CanAddPackages() ? this : nullptr; }
  async::Task<Result<std::string>> Use(std::string directory) override;
  std::optional<Result<run::GuestPython>> python() const override { return python_; }
  async::Task<void> AskPython(run::StopToken stop) override;

  const os::Directory* workspace() const override { return workdir_ ? &*workdir_ : nullptr; }
  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override { return jail_.Listen(); }

 private:
  ContainerSession(confine::LaunchContext& context, run::GuestSpec spec, std::unique_ptr<Container> container,
                   confine::LimitPlan limits, Isolation isolation, async::ReadySet ready);

  static Error Ended();
  bool CanAddPackages() const;
  // Those of the guest's programs.
  confine::EnvVars Variables(const language::Plan& plan);
  // For programs beside the runners.
  confine::ProgramPlace Place();
  async::Task<Result<language::Plan>> PlanBlock(const run::BlockTurn& turn);
  async::Task<Status> EnsureRunner(const std::string& language);
  async::Task<Result<Runner>> StartRunner(const std::string& language);
  async::Task<Result<std::unique_ptr<run::Execution>>> BeginCell(const std::string& language,
                                                                 const run::BlockTurn& turn, run::StopToken stop);
  async::Task<Result<std::unique_ptr<run::Execution>>> BeginProgram(const run::BlockTurn& turn);
  // Waits until `arrived` is true of the reports that init has sent. An Error: the container has ended.
  async::Task<Status> AwaitReport(std::function<bool()> arrived);
  // With a name (empty: the automatic one): waits for that checkpoint, whose status is the answer.
  async::Task<Result<std::string>> Exchange(Runner& runner, std::string payload,
                                            std::optional<std::string> checkpoint = std::nullopt);
  async::Task<run::StateReport> AfterCell(const run::RunFacts& facts);

  void OnCheckpoint(const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy);
  std::string FirstCheckpoint() const;
  Runner Promote(RunnerCopy copy);
  // After the end of an interpreter.
  async::Task<StateAfter> Recover(const std::string& language);
  async::Task<Status> AskForCheckpoint(Runner& runner, const std::string& name);
  void Watch(Runner* runner);
  bool HasEnded(const Runner& runner) const;
  void Discard(Runner& runner);

  confine::LaunchContext& context_;
  run::GuestSpec spec_;
  std::unique_ptr<Container> container_;
  confine::Jail jail_;
  confine::LimitPlan limits_;
  Isolation isolation_;
  ContainerFiles files_;
  std::optional<os::Directory> workdir_;
  os::Pipe out_, err_;
  async::ReadySet ready_;
  os::CgroupMeter no_meter_;
  CellContext cells_;
  Runner* watched_ = nullptr;
  std::map<std::string, Runner> runners_;  // by language
  std::optional<RunnerCopy> checkpoint_;   // the automatic one
  std::string checkpoint_status_;          // what stands behind the next run
  bool checkpoint_due_ = false;            // of the last run; the one that is there is older
  std::map<std::string, RunnerCopy> named_;
  std::string asked_name_, arrived_;      // the named checkpoint that was asked for last, and its status
  StateAfter found_ = StateAfter::kKept;  // the state that the block that is on began with
  std::string block_language_;            // of the block that is on; empty: it is a program
  std::vector<std::string> value_files_;  // of the block that is on
  uint64_t oom_kills_before_ = 0;
  std::optional<Result<run::GuestPython>> python_;  // as the image's interpreter describes itself
  std::string packages_;                            // where its packages are inside; empty: nowhere
};

}  // namespace cella::executor
