// The gate for calls from a guest to the host: bounds, routing by namespace, one record per call. A call belongs to the
// block that is on: without one it is refused, and when the block ends its open calls are cancelled. Lives on the loop.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "async/task_group.h"
#include "run/host_call.h"

namespace cella::run {

struct HostCallBounds {
  size_t in_flight = 16;
  size_t per_run = 10'000;
  size_t argument_bytes = size_t{1} << 20;
  size_t value_bytes = size_t{16} << 20;
  size_t progress_lines = 2000;  // of one block
  // Further refused calls of a run are not recorded: a guest can make them without end.
  size_t recorded_refusals = 100;
};

// What is recorded of a call: never arguments or values.
struct HostCallRecord {
  CallDoor door = CallDoor::kRunner;
  std::string space;
  std::string operation;
  std::chrono::nanoseconds duration{};
  size_t bytes_in = 0;
  size_t bytes_out = 0;
  std::string outcome;  // "ok", "error", "refused", "cancelled"
};

class HostCallHandler {
 public:
  virtual ~HostCallHandler() = default;
  // Whether there is anything to call now. If no namespace of a session has, its next program is started without the
  // variables of calls.
  virtual bool HasOperations() const { return true; }
  // Cancelled when the block ends, and ends soon after that. The id of the reply is filled in by the gate.
  virtual async::Task<HostReply> Serve(HostCall call) = 0;
};

class HostCalls {
 public:
  using Answer = std::function<void(HostReply)>;
  using Recorder = std::function<void(const HostCallRecord&)>;
  using ShowProgress = std::function<void(std::string_view line)>;
  using Auditor = std::function<async::Task<void>(HostCallRecord)>;

  explicit HostCalls(async::Loop& loop, HostCallBounds bounds = {}) : loop_(loop), bounds_(bounds) {}

  // The handler outlives the gate. A namespace of one door does not exist at the other.
  void Route(CallDoor door, std::string space, HostCallHandler& handler) {
    handlers_[static_cast<size_t>(door)][std::move(space)] = &handler;
  }
  // Gets every record at once.
  void SetRecorder(Recorder recorder) { recorder_ = std::move(recorder); }
  // Gets the records of calls that were served. A call is answered when its record has been taken, so that a guest
  // cannot make records faster than they are taken.
  void SetAuditor(Auditor auditor) { auditor_ = std::move(auditor); }

  // The calls of the next blocks are counted from zero.
  void BeginRun() { taken_ = refused_ = 0; }
  // Calls that come from now on belong to this block; `answer` gets the replies to calls of the runner, `recorder` the
  // records of the block until Close has ended, and `show_progress` at most HostCallBounds::progress_lines lines.
  void Open(Answer answer, Recorder recorder = {}, ShowProgress show_progress = {});
  // Takes a call; beyond a bound it is answered with an error at once, nothing is queued. With an `answer` of its own,
  // it is answered in any case, also when no block is on; it outlives the call.
  void Take(HostCall call, Answer answer = {});
  // Cancels what is open and refuses further calls until the next Open.
  async::Task<void> Close();

 private:
  async::Task<void> Serve(HostCall call, Answer answer, HostCallHandler& handler);
  void Refuse(const HostCall& call, const Answer& answer, std::string why);
  HostCallRecord Record(const HostCall& call, async::TimePoint start, size_t bytes_out, std::string_view outcome);

  async::Loop& loop_;
  const HostCallBounds bounds_;
  std::array<std::map<std::string, HostCallHandler*, std::less<>>, 2> handlers_;  // by door
  Recorder recorder_;
  Recorder block_recorder_;
  Auditor auditor_;
  Answer answer_;
  std::shared_ptr<ShowProgress> show_progress_;  // of the block that is on; calls that outlive it find none
  std::unique_ptr<async::TaskGroup> calls_;      // of the block that is on
  size_t open_ = 0;
  size_t taken_ = 0;
  size_t refused_ = 0;
};

}  // namespace cella::run
