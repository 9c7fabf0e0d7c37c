// A session: one guest with its state and files, one run at a time. What the command line, the server and the library
// share. Lives on the loop; Close it (and let the task end) before it goes away.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/gate.h"
#include "async/task.h"
#include "async/task_group.h"
#include "cella/outcome.h"
#include "executor/executor.h"
#include "executor/session_guest.h"

namespace cella::session {

struct SessionOptions {
  executor::SessionRequest request;
  size_t queue = 16;  // runs that may wait for the one that is on
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
  std::chrono::nanoseconds max_lifetime = std::chrono::hours(24);
};

struct RunInput {
  language::Block block;
  std::optional<std::chrono::nanoseconds> timeout;  // else the policy's
  std::optional<std::string> stdin_text;
  bool answers_input = false;  // somebody calls Reply when an input request comes
};

class Session {
 public:
  // The executor outlives the session.
  static async::Task<Result<std::unique_ptr<Session>>> Open(async::Loop& loop, executor::Executor& executor,
                                                            SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& id() const { return id_; }
  const Isolation& isolation() const { return guest_->isolation(); }
  bool is_open() const { return !closing_; }
  std::optional<uint64_t> MemoryUsed() const { return guest_->MemoryUsed(); }

  // Waits for its turn. Events go to `sink` as well, if there is one, capped as in the Result. What the guest does is
  // in the Result, and so is a refusal (kRejected). kExhausted: too many wait; kClosed: the session is.
  async::Task<Result<RunResult>> Run(RunInput input, executor::EventSink* sink = nullptr);

  // All three are for the run that is on, and do nothing without one.
  void Interrupt() { guest_->Interrupt(); }
  void Cancel() { guest_->Cancel(); }
  async::Task<Status> Reply(std::optional<std::string> text) { return guest_->Reply(std::move(text)); }

  // These wait for their turn, as runs do.
  async::Task<Result<std::string>> Ask(std::string language, language::Question question, std::string code,
                                       size_t cursor);
  async::Task<Status> Reset();
  async::Task<Status> SaveCheckpoint(std::string name);
  async::Task<Status> Rollback(std::string name);
  async::Task<Status> DropCheckpoint(std::string name);
  std::vector<std::string> Checkpoints() const { return guest_->Checkpoints(); }

  // Cancels what runs, refuses what waits, ends the guest.
  async::Task<void> Close();

 private:
  Session(async::Loop& loop, SessionOptions options, std::unique_ptr<executor::SessionGuest> guest);

  async::Task<Result<async::Gate::Pass>> Enter();
  async::Task<void> Expire();
  async::Task<Status> InTurn(std::function<async::Task<Status>()> work);
  void Touch() { idle_since_ = async::Clock::now(); }

  SessionOptions options_;
  std::string id_;
  std::unique_ptr<executor::SessionGuest> guest_;
  async::Gate turn_;
  async::TaskGroup timers_;
  const async::TimePoint opened_ = async::Clock::now();
  async::TimePoint idle_since_ = async::Clock::now();
  uint64_t runs_ = 0;
  bool busy_ = false;
  bool closing_ = false;
  bool ended_ = false;
  std::string closed_because_ = "it was closed";
};

}  // namespace cella::session
