// One run of a session, shared by the session and by the surface that asked for it: its stop, its input, its end. Lives
// on the loop.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "base/result.h"
#include "cella/outcome.h"
#include "cella/run.h"
#include "run/driver.h"
#include "run/host_calls.h"
#include "run/stop.h"

namespace cella::session {

// The namespace `input` of the calls from the guest: each call waits for a line.
class InputCalls : public run::HostCallHandler {
 public:
  explicit InputCalls(async::Loop& loop) : loop_(loop) {}
  async::Task<run::HostReply> Serve(run::HostCall call) override;
  // To the oldest request, or to the next one: a bounded number of answers may come ahead of their requests.
  Status Reply(std::optional<std::string> text);

 private:
  struct Request {
    explicit Request(async::Loop& loop) : answered(loop) {}
    async::Event answered;
    std::optional<std::string> text;
  };
  async::Loop& loop_;
  std::deque<std::shared_ptr<Request>> open_;
  std::deque<std::optional<std::string>> ahead_;
  size_t bytes_ahead_ = 0;
};

class Run {
 public:
  Run(async::Loop& loop, RunSpec spec) : spec_(std::move(spec)), stop_(loop), input_(loop), ended_(loop) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const std::string& id() const { return spec_.id; }
  run::RunState state() const;
  // In any state. False: the run is over, or was stopped for as strong a reason before.
  bool Stop(StopReason reason, std::string because = "") { return stop_.Request(reason, std::move(because)); }
  // To an input request of this run; no text: there is no more input. kInvalid: the run takes none.
  Status Reply(std::optional<std::string> text);

  // True when it has ended, false when the wait was cancelled.
  async::Task<bool> Ended() { return ended_.Wait(); }
  bool has_ended() const { return ended_.is_set(); }
  // Once it has ended.
  const RunResult& result() const { return result_; }
  // The same, moved out: for the last reader.
  RunResult TakeResult() { return std::move(result_); }

 private:
  friend class Session;

  RunSpec spec_;
  run::StopSource stop_;
  InputCalls input_;
  run::RunDriver* driver_ = nullptr;  // while it is this run's turn
  RunResult result_;
  async::Event ended_;
};

}  // namespace cella::session
