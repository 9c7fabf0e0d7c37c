// A session: one guest with its state and files, one run at a time. What the command line, the server and the library
// share. Lives on the loop; Close it (and let the task end) before it goes away.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/gate.h"
#include "async/task.h"
#include "async/task_group.h"
#include "cella/outcome.h"
#include "executor/executor.h"
#include "executor/session_guest.h"
#include "os/directory.h"

namespace cella::session {

struct SessionOptions {
  executor::SessionRequest request;
  size_t queue = 16;  // runs that may wait for the one that is on
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
  std::chrono::nanoseconds max_lifetime = std::chrono::hours(24);
};

struct RunInput {
  std::string id;                                   // empty: the session makes one
  std::vector<language::Block> blocks;              // in order; the first that fails is the last. One at least.
  std::optional<std::chrono::nanoseconds> timeout;  // else the policy's
  std::optional<std::string> stdin_text;
  bool answers_input = false;                               // somebody calls Reply when an input request comes
  std::function<void()> on_turn;                            // its turn has come; Cancel now means this run
  std::function<void(Stream, std::string_view)> on_output;  // all that it writes, before it is capped
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
  bool is_busy() const { return busy_; }
  size_t waiting() const { return turn_.waiting(); }
  async::TimePoint opened() const { return opened_; }
  // Why no more runs are taken; for one that is not open.
  const std::string& closed_because() const { return closed_because_; }
  // Waits until no more runs are taken: somebody closed it, or its time was up. False when cancelled.
  async::Task<bool> Closing() { return closing_event_.Wait(); }
  // Its files; nothing where the executor has no place for them. Valid as long as the session.
  const os::Directory* workspace() const { return guest_->workspace(); }
  std::optional<uint64_t> MemoryUsed() const { return guest_->MemoryUsed(); }

  // Waits for its turn. Events go to `sink` as well, if there is one, capped as in the Result. What the guest does is
  // in the Result, and so is a refusal (kRejected). kExhausted: too many wait; kClosed: the session is.
  async::Task<Result<RunResult>> Run(RunInput input, executor::EventSink* sink = nullptr);

  // All three are for the run that is on, and do nothing without one. Of one with several blocks no further one begins,
  // even if the code catches the interrupt.
  void Interrupt();
  void Cancel();
  async::Task<Status> Reply(std::optional<std::string> text) { return guest_->Reply(std::move(text)); }

  // These wait for their turn, as runs do.
  async::Task<Result<std::string>> Ask(std::string language, language::Question question, std::string code,
                                       size_t cursor);
  async::Task<Status> Reset();
  async::Task<Status> SaveCheckpoint(std::string name);
  async::Task<Status> Rollback(std::string name);
  async::Task<Status> DropCheckpoint(std::string name);
  std::vector<std::string> Checkpoints() const { return guest_->Checkpoints(); }

  // Takes no more runs and cancels the one that is on; Close is still due.
  void Stop(std::string because);
  // Cancels what runs, refuses what waits, ends the guest.
  async::Task<void> Close();

 private:
  Session(async::Loop& loop, SessionOptions options, std::unique_ptr<executor::SessionGuest> guest);

  async::Task<Result<async::Gate::Pass>> Enter();
  async::Task<void> Expire();
  async::Task<executor::CellEnd> RunBlocks(RunInput& input, const std::string& run_id, executor::EventSink& sink);
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
  bool cancelled_ = false;    // the run that is on
  bool interrupted_ = false;  // no further block of it begins
  async::Event closing_event_;
  std::string closed_because_;
};

}  // namespace cella::session
