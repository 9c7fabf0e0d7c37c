// A session of the local executor: one directory for all its runs; each run is a program of its own, so that there is
// no state besides files.
#pragma once

#include "async/event.h"
#include "executor/local/local_executor.h"
#include "executor/local/scratch.h"
#include "executor/session_guest.h"

namespace cella::executor {

class LocalSession : public SessionGuest {
 public:
  // The executor outlives this. Without a workdir of the policy's, `scratch` is the workspace.
  LocalSession(LocalExecutor& executor, async::Loop& loop, LocalScratch scratch, SessionRequest request);

  async::Task<Result<CellEnd>> Run(Cell cell, EventSink& sink) override;
  void Interrupt() override { Cancel(); }
  void Cancel() override;
  async::Task<Status> Reply(std::optional<std::string> text) override;
  async::Task<Result<std::string>> Ask(const std::string& language, language::Question question, std::string code,
                                       size_t cursor) override;
  async::Task<Status> Reset() override;
  async::Task<Status> SaveCheckpoint(const std::string& name) override;
  async::Task<Status> Rollback(const std::string& name) override;
  Status DropCheckpoint(const std::string& name) override;
  std::vector<std::string> Checkpoints() const override { return {}; }
  bool keeps_state() const override { return false; }
  const Isolation& isolation() const override { return isolation_; }
  const os::Directory* workspace() const override { return &directory_; }
  async::Task<void> Close() override;

 private:
  LocalExecutor& executor_;
  async::Loop& loop_;
  LocalScratch scratch_;
  SessionRequest request_;
  os::Directory directory_;
  Isolation isolation_;
  async::Event* cancel_ = nullptr;  // of the run that is on
};

}  // namespace cella::executor
