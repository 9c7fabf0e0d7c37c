// A guest whose blocks are programs: each is a file and a new process, and no state stays but files. What the one-shot
// runs of the sandbox and the local executor have in common.
#pragma once

#include <optional>
#include <string>

#include "confine/env_vars.h"
#include "confine/launch_context.h"
#include "confine/program_execution.h"
#include "confine/workspace.h"
#include "run/executor.h"

namespace cella::confine {

// The plan of a block that runs at `destination`, with `scratch_dir` for compiled programs. A plan that follows from
// remembered answers is made at once, since a thread takes longer; a program that must be asked is asked off the loop.
// `workspace` is its path as the block sees it.
async::Task<Result<language::Plan>> MakePlan(LaunchContext& context, const Policy& policy, const run::BlockTurn& turn,
                                             language::Destination destination, const std::string& scratch_dir,
                                             const std::string& workspace = "/workspace");

// Where the block's commands run.
std::string DirectoryOf(const RunSpec& run, const std::string& workspace);

class ProgramGuest : public run::Guest {
 public:
  const run::Traits& traits(std::string_view) const override { return run::kPrograms; }
  const Isolation& isolation() const override { return isolation_; }
  std::string LanguageOf(const RunSpec& run, const Block& block) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  const os::Directory* workspace() const override { return files_ ? &files_->directory() : nullptr; }
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<run::GuestUsage> MeasureUsage() override;

 protected:
  ProgramGuest(LaunchContext& context, run::GuestSpec spec) : context_(context), spec_(std::move(spec)) {}

  // Makes the place ready: jail_, cgroup_, limits_, files_, isolation_ and cwd_ are set.
  virtual async::Task<Status> Prepare(const run::BlockTurn& turn) = 0;
  virtual async::Task<Result<language::Plan>> PlanFor(const run::BlockTurn& turn) = 0;
  // The executor's own variables; the plan's and the policy's are added.
  virtual EnvVars Variables(const language::Plan& plan) const = 0;
  // Changes what all others have set.
  virtual void AddToVariables(EnvVars* /*variables*/) const {}
  // Whether the place holds more than the block's program: signals then go to that program's group alone.
  virtual bool SharesTree() const { return false; }

  LaunchContext& context_;
  run::GuestSpec spec_;
  os::Cgroup cgroup_;  // declared before the jail: the group is removed after everything in it is gone
  std::optional<Jail> jail_;
  LimitPlan limits_;
  std::optional<Workspace> files_;
  Isolation isolation_;
  std::string cwd_;
  // As the guest sees them, where its processes can call the host; empty: they cannot.
  std::string call_socket_, runners_;

 private:
  bool reports_files_ = true;
};

}  // namespace cella::confine
