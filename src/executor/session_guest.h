// The port to a guest that keeps its state between runs: what `session` drives and each executor provides. One run at a
// time; Interrupt, Cancel and Reply may come while it is on. Lives on the loop; Close before it goes away.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "executor/executor.h"
#include "language/plan.h"
#include "language/runner_protocol.h"
#include "os/directory.h"

namespace cella::executor {

// Beside the automatic one.
inline constexpr size_t kMaxNamedCheckpoints = 8;

struct SessionRequest {
  Policy policy;
  std::vector<std::string> preload;  // Python modules that are imported before the session begins
  language::CheckpointMode checkpoint = language::CheckpointMode::kAuto;
};

struct Cell {
  std::string run_id;
  uint64_t number = 0;  // of the session's runs, from 1
  language::Block block;
  std::chrono::nanoseconds timeout{};
  std::optional<std::string> stdin_text;
  bool answers_input = false;  // somebody calls Reply when an InputRequestEvent comes
};

struct CellEnd {
  Outcome outcome;
  StateAfter state = StateAfter::kNone;
  std::string checkpoint = "off";  // what stood behind this run
};

class SessionGuest {
 public:
  virtual ~SessionGuest() = default;

  // Emits the events of one run, without started and finished.
  virtual async::Task<Result<CellEnd>> Run(Cell cell, EventSink& sink) = 0;
  // SIGINT to what runs, or is being prepared to: the code may catch it, and state is kept.
  virtual void Interrupt() = 0;
  // Ends what runs: SIGINT, a grace, then SIGKILL and the state from before.
  virtual void Cancel() = 0;
  // To the code that waits for input; nothing: there is no more.
  virtual async::Task<Status> Reply(std::optional<std::string> text) = 0;

  // JSON text as in runners/README.md. kUnsupported: this language has no answer.
  virtual async::Task<Result<std::string>> Ask(const std::string& language, language::Question question,
                                               std::string code, size_t cursor) = 0;

  // Forgets all variables and ends all processes; files stay.
  virtual async::Task<Status> Reset() = 0;
  virtual async::Task<Status> SaveCheckpoint(const std::string& name) = 0;
  virtual async::Task<Status> Rollback(const std::string& name) = 0;
  virtual Status DropCheckpoint(const std::string& name) = 0;
  virtual std::vector<std::string> Checkpoints() const = 0;

  virtual bool keeps_state() const { return true; }
  virtual const Isolation& isolation() const = 0;
  // What the guest sees as its working directory. Valid until Close.
  virtual const os::Directory* workspace() const { return nullptr; }
  // Charged to it now; nothing where nobody counts.
  virtual std::optional<uint64_t> MemoryUsed() const { return std::nullopt; }
  // Ends everything and waits until it is gone.
  virtual async::Task<void> Close() = 0;
};

}  // namespace cella::executor
