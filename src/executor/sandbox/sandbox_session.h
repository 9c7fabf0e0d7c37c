// A session in a jail of its own: runners that keep state (Python forked from a zygote and checkpointed; JavaScript and
// Bash started on first use), other languages as programs beside them, one workspace for all. In three files: runs and
// their judgement (sandbox_session.cc), runners (session_runners.cc), checkpoints (session_checkpoints.cc).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/gate.h"
#include "async/ready_set.h"
#include "async/task_group.h"
#include "executor/limits.h"
#include "executor/sandbox/cell_run.h"
#include "executor/sandbox/runner.h"
#include "executor/sandbox/shell.h"
#include "executor/sandbox/warm_environment.h"
#include "executor/session_guest.h"
#include "executor/workspace.h"
#include "os/io.h"

namespace cella::executor {

class SandboxSession : public SessionGuest {
 public:
  // Takes the shell over and starts the Python runner in it.
  static async::Task<Result<std::unique_ptr<SandboxSession>>> Open(LaunchContext& context,
                                                                   std::shared_ptr<WarmEnvironment> warm,
                                                                   std::unique_ptr<Shell> shell, LimitPlan limit_plan,
                                                                   SessionRequest request);

  // Runs an empty cell, after which the interpreter has touched what any first run touches.
  async::Task<void> Warm();
  // Nothing has run and the interpreter lives.
  bool IsFresh();

  async::Task<Result<CellEnd>> Run(Cell cell, EventSink& sink) override;
  void Interrupt() override;
  void Cancel() override;
  async::Task<Status> Reply(std::optional<std::string> text) override;
  async::Task<Result<std::string>> Ask(const std::string& language, language::Question question, std::string code,
                                       size_t cursor) override;
  async::Task<Status> Reset() override;
  async::Task<Status> SaveCheckpoint(const std::string& name) override;
  async::Task<Status> Rollback(const std::string& name) override;
  Status DropCheckpoint(const std::string& name) override;
  std::vector<std::string> Checkpoints() const override;
  const Isolation& isolation() const override { return isolation_; }
  const os::Directory* workspace() const override { return &files_.directory(); }
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<void> Close() override;

 private:
  SandboxSession(LaunchContext& context, std::shared_ptr<WarmEnvironment> warm, std::unique_ptr<Shell> shell,
                 LimitPlan limit_plan, SessionRequest request, async::ReadySet ready);

  static constexpr const char* kCwd = "/workspace";
  static Error JailEnded();

  Status OpenPipes();
  async::Task<Status> EnsureRunner(const std::string& language);
  async::Task<bool> JailIsEnding();
  async::Task<Status> OpenEntry();
  async::Task<Result<Runner>> ForkRunner();
  async::Task<Result<Runner>> ExecRunner(const std::string& language);
  async::Task<Result<CellEnd>> RunCell(const std::string& language, Cell cell, EventSink& sink);
  async::Task<Result<CellEnd>> RunProgram(Cell cell, EventSink& sink);
  async::Task<CellEnd> Judge(const std::string& language, RunEnd end, async::TimePoint started);
  async::Task<std::optional<int>> EndOf(const Runner& runner, const RunEnd& end);
  async::Task<StateAfter> Recover(const std::string& language);
  // With a name (empty: the automatic one): waits for that checkpoint, whose status is the answer.
  async::Task<Result<std::string>> Exchange(Runner& runner, std::string payload,
                                            std::optional<std::string> checkpoint_name);
  async::Task<Status> KillEverybody();
  async::Task<bool> HearInit();
  // What init answers; kFailed comes as an Error. Ends of programs that come first are kept.
  async::Task<Result<Launch::Received>> AwaitReport(jail::ReportKind kind, uint32_t tag = 0);
  async::Task<Status> AskForCheckpoint(Runner& runner, const std::string& name);

  Runner Promote(RunnerCopy copy, const std::shared_ptr<Zygote>& zygote);
  void Watch(Runner* runner);
  std::string FirstCheckpoint() const;
  async::Task<void> Settle(Runner& runner);
  async::Task<void> StopSettling();
  void DropLateOutput();
  void Discard(Runner* runner);
  void OnCheckpoint(const language::CheckpointFrame& frame, std::optional<RunnerCopy> copy);
  // What the kernel did to the group since the run began.
  struct Trouble {
    bool oom_kill = false;
    bool refused_fork = false;
  };
  Trouble LookForTrouble() const;

  LaunchContext& context_;
  std::shared_ptr<WarmEnvironment> warm_;
  std::unique_ptr<Shell> shell_;
  LimitPlan limit_plan_;
  SessionRequest request_;
  std::vector<std::pair<std::string, std::string>> env_;
  std::string search_path_;
  Isolation isolation_;
  Workspace files_;
  os::Pipe out_;
  os::Pipe err_;
  async::ReadySet ready_;
  os::CgroupMeter meter_;
  CellParts parts_;
  Limits limits_;                          // of the run that is on: its timeout may differ
  Runner* watched_ = nullptr;              // whose descriptors are in the set
  std::map<std::string, Runner> runners_;  // by language
  std::optional<RunnerCopy> checkpoint_;   // the automatic one
  std::string checkpoint_status_;          // what stands behind the next run
  std::map<std::string, RunnerCopy> named_;
  std::string arrived_;  // status of the last named checkpoint that was asked for
  uint64_t oom_kills_ = 0;
  uint64_t refused_forks_ = 0;
  std::string asked_name_;  // of the checkpoint that was asked for last
  CellRun* running_ = nullptr;
  async::Gate replying_;  // each reply is sent whole
  async::Event* cancel_program_ = nullptr;
  async::TaskGroup settling_;
  bool settled_badly_ = false;
  bool checkpoint_due_ = false;  // of the last run; the one that is there is older
  bool interruptible_ = false;   // a run is being prepared, or is on
  bool cancel_asked_ = false;    // these two also while it is still being prepared
  bool interrupt_asked_ = false;
  bool lost_ = false;  // the jail itself ended
};

}  // namespace cella::executor
