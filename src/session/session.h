// A session: one guest with its state and files, one run at a time. What the command line, the server and the library
// share. Lives on the loop; Close it (and let the task end) before it is destroyed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/gate.h"
#include "async/task.h"
#include "async/task_group.h"
#include "calls/door.h"
#include "cella/outcome.h"
#include "os/directory.h"
#include "run/executor.h"
#include "session/run.h"
#include "session/run_output.h"

namespace cella::session {

struct SessionOptions {
  run::GuestSpec guest;
  // What processes of the guest may call, by namespace (runners/README.md), where the guest can call.
  std::map<std::string, std::shared_ptr<run::HostCallHandler>> spaces{};
  // Gets what is recorded of each of these calls, with the id of its run.
  std::function<async::Task<void>(std::string run, run::HostCallRecord)> on_call{};
  size_t queue = 16;  // runs that may wait for the one that is on
  // The most that the processor time of a run follows its time-out.
  std::chrono::nanoseconds max_cpu_time = std::chrono::nanoseconds::max();
};

class Session {
 public:
  // The executor outlives the session. `only`: the one run that the session is for; it is submitted by the caller, and
  // its result has no session.
  static async::Task<Result<std::unique_ptr<Session>>> Open(async::Loop& loop, run::Executor& executor,
                                                            SessionOptions options, const RunSpec* only = nullptr,
                                                            run::StopToken stop = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& id() const { return id_; }
  const Isolation& isolation() const { return guest_->isolation(); }
  // What `language` (empty: the default one) can do here.
  std::vector<std::string_view> Capabilities(std::string_view language = {}) const;
  bool is_open() const { return !closing_; }
  bool is_busy() const { return current_ != nullptr; }
  size_t waiting() const { return turn_.waiting(); }
  async::TimePoint opened() const { return opened_; }
  // Why the session takes no more runs; empty while it is open.
  const std::string& closed_because() const { return closed_because_; }
  // Waits until the session takes no more runs: it was stopped, or its time was up. False when cancelled.
  async::Task<bool> Closing() { return closing_event_.Wait(); }
  // Whether the code can call the host.
  bool can_call() const { return door_.has_value(); }
  // Its files; null where the executor has no place for them. Valid as long as the session.
  const os::Directory* workspace() const { return guest_->workspace(); }
  std::optional<uint64_t> MemoryUsed() const { return guest_->MemoryUsed(); }
  // Measured now, also while a run is on. The session outlives the task.
  async::Task<run::GuestUsage> MeasureUsage();

  // Queues a run. What the guest does is in the run's result, and so is a refusal (kRejected). The sink gets the
  // events, and outlives the run; null: only the result is made. kExhausted: too many wait; kClosed: the session is
  // closing; kInvalid: there is no code.
  Result<std::shared_ptr<Run>> Submit(RunSpec spec, run::EventSink* sink, OutputShape shape);
  // With the output capped as the policy says.
  Result<std::shared_ptr<Run>> Submit(RunSpec spec, run::EventSink* sink = nullptr);
  // Submits and waits for the end.
  async::Task<Result<RunResult>> RunToEnd(RunSpec spec, run::EventSink* sink = nullptr);

  // The run whose turn it is; null: none.
  const std::shared_ptr<Run>& current() const { return current_; }

  // These wait for their turn, as runs do. kUnsupported: the guest cannot do it.
  async::Task<Result<std::string>> Ask(std::string language, CodeQuestion question, std::string code, size_t cursor);
  async::Task<Status> Reset();
  // Packages that the session's Python finds from its next run on; see run::Packages. kUnsupported: it takes none.
  async::Task<Result<std::string>> UsePackages(std::string directory);
  // The interpreter that they are for; see run::Packages. Waits for the run that is on, if it has to be asked.
  async::Task<Result<run::GuestPython>> DescribePython();
  async::Task<Status> SaveCheckpoint(std::string name);
  async::Task<Status> Rollback(std::string name);
  async::Task<Status> DropCheckpoint(std::string name);
  std::vector<std::string> Checkpoints() const;

  // Takes no more runs and cancels those that are on or wait; Close is still due.
  void Stop(std::string because);
  // Cancels what runs, refuses what waits, ends the guest.
  async::Task<void> Close();

 private:
  Session(async::Loop& loop, SessionOptions options, std::unique_ptr<run::Guest> guest, bool alone);

  async::Task<void> Execute(std::shared_ptr<Run> run, run::EventSink* sink, OutputShape shape);
  async::Task<void> RunInTurn(Run& run, run::EventSink* sink, OutputShape shape);
  async::Task<run::BlockEnd> RunBlocks(Run& run, run::RunDriver& driver);
  async::Task<Result<run::BlockEnd>> RunBlock(Run& run, run::RunDriver& driver, size_t index, async::TimePoint start);
  void RecordCalls();
  async::Task<Status> MakeDoor();
  RunResult Cancelled(const Run& run) const;
  void EndRun(const std::shared_ptr<Run>& run);
  async::Task<Result<async::Gate::Pass>> Enter();
  async::Task<Status> InTurn(std::function<async::Task<Status>()> work);
  async::Task<void> Expire();
  void Touch() { idle_since_ = async::Clock::now(); }

  async::Loop& loop_;
  SessionOptions options_;
  std::string id_;
  const bool alone_;  // the session is for one run, whose result does not name it
  std::unique_ptr<run::Guest> guest_;
  run::HostCalls calls_;
  std::optional<calls::Door> door_;  // of a guest that may call
  async::Gate turn_;
  async::TaskGroup timers_;
  async::TaskGroup runs_;
  std::vector<std::weak_ptr<Run>> queued_;  // to be stopped with the session
  std::shared_ptr<Run> current_;
  const async::TimePoint opened_ = async::Clock::now();
  async::TimePoint idle_since_ = async::Clock::now();
  uint64_t blocks_ = 0;  // that were run
  bool closing_ = false;
  bool guest_closed_ = false;
  async::Event closing_event_;
  std::string closed_because_;
};

}  // namespace cella::session
