// One run of the server, from its acceptance to long after its end: its numbered events for its readers, what it
// wrote, and its Result. Shared by the session that runs it and the requests that look at it. Lives on the loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/event.h"
#include "cella/outcome.h"
#include "registry/event_log.h"
#include "registry/output_spill.h"
#include "registry/types.h"
#include "run/output.h"
#include "server/kept_outputs.h"
#include "session/json.h"
#include "session/run.h"

namespace cella::server {

struct RunPaths {
  std::string events, output, errors, large;
};

class HostedRun : public run::EventSink {
 public:
  enum class Phase { kQueued, kRunning, kEnded };

  HostedRun(async::Loop& loop, async::BlockingPool& work, std::string id, std::string owner, RunPaths paths,
            registry::EventLogLimits limits);

  const std::string& id() const { return id_; }
  const std::string& owner() const { return owner_; }
  Phase phase() const { return phase_; }
  const std::shared_ptr<registry::EventLog>& events() const { return events_; }

  // The engine's side, once the run is queued there. It gets the stop that was requested before.
  void Attach(std::shared_ptr<session::Run> run);
  const std::shared_ptr<session::Run>& engine() const { return run_; }
  // Also of a run that the registry is still being told of. False: the run is over, or a stronger request stands.
  bool Stop(StopReason reason);
  // kInvalid: nothing waits for input.
  Status Reply(std::optional<std::string> text);

  // Everything that the run writes, before it is capped for events and Result.
  void Keep(Stream stream, std::string_view bytes);
  // At most so many bytes of a stream from `offset` on, whether the run is on or over.
  Result<std::string> ReadOutput(Stream stream, uint64_t offset, size_t at_most) const;
  uint64_t OutputSize(Stream stream) const;
  // Outputs that are too large for the Result.
  KeptOutputs& large() { return large_; }

  async::Task<bool> Emit(Event event) override;
  // No event will come any more. `result` has been folded from those that came, and outlives the call.
  async::Task<void> Finish(const RunResult& result);
  // One of long ago, of which only the Result is left.
  void FinishAsStored(std::string result);
  // After Finish, when there is time: writes a large Result to disk.
  async::Task<void> KeepResult();
  enum class Stored { kNo, kYes };
  // After KeepResult: what is in memory goes to disk. A large Result that the registry has, if shortened, is let go.
  void Settle(Stored stored);
  void Discard();
  bool is_discarded() const { return discarded_; }
  // What its files take.
  uint64_t disk_bytes() const;

  // True once it has ended; false when cancelled.
  async::Task<bool> Ended() { return ended_.Wait(); }
  // The Result as JSON, once it has ended. Null: it was large and could not be written to disk; the registry has what
  // fits there.
  async::Task<std::shared_ptr<const std::string>> LoadResult();
  // Only the Result is left; the events are not.
  bool is_stored() const { return stored_; }

  // Keeps the Result at hand while it lives, however large it is.
  class Waiter {
   public:
    explicit Waiter(HostedRun& run) : run_(run) { ++run_.waiters_; }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter() {
      --run_.waiters_;
      run_.DropLargeResult();
    }

   private:
    HostedRun& run_;
  };

  // Events that the registry has not been told of; the last ones if there were too many.
  std::vector<registry::EventRecord> TakeNews();

 private:
  void Append(std::string line);
  async::Task<void> Tell(const Event& event);
  void DropLargeResult();

  async::BlockingPool& work_;
  const std::string id_;
  const std::string owner_;
  std::shared_ptr<session::Run> run_;
  std::optional<StopReason> early_stop_;  // requested before there was run_
  Phase phase_ = Phase::kQueued;
  std::shared_ptr<registry::EventLog> events_;
  session::EventEncoder encoder_;
  registry::OutputSpill out_, err_;
  KeptOutputs large_;
  std::deque<registry::EventRecord> news_;
  async::Event ended_;
  std::shared_ptr<const std::string> result_;
  size_t waiters_ = 0;
  bool settled_ = false;
  bool told_end_ = false;
  bool stored_ = false;
  bool discarded_ = false;
};

}  // namespace cella::server
