// A run of the library: a bounded queue of its events between the loop and the thread that takes them, its stop, its
// result. Any thread may call what does not say otherwise.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "async/notifier.h"
#include "library/host.h"
#include "library/tools.h"
#include "run/output.h"
#include "session/run.h"

namespace cella::library {

class RunCore : public std::enable_shared_from_this<RunCore> {
 public:
  enum class Events { kTaken, kDropped };  // whether the application takes them

  RunCore(Host& host, Events events)
      : host_(host), sink_(*this), space_(host.loop()), discards_(events == Events::kDropped) {}

  // On the loop:
  run::EventSink* sink();
  void Begin(std::shared_ptr<session::Run> run) { run_ = std::move(run); }
  void End(RunResult result);
  // The session took no run.
  void Refuse(Error why);
  bool IsOf(const std::shared_ptr<session::Run>& run) const { return run != nullptr && run_ == run; }
  // A thread that is in Take or Wait, or comes there, serves it.
  void Offer(ToolCall call);

  // Waits for the next event, and serves calls meanwhile; until `until` at the latest.
  enum class Next { kEvent, kNothingYet, kEnd };
  Next Take(std::optional<std::chrono::steady_clock::time_point> until, Event* event);
  // Waits for the end, and serves calls meanwhile. Events that were not taken by then are dropped.
  const RunResult& Wait();
  // The same for a run that the session may refuse: then with the reason.
  Result<RunResult> WaitOrRefusal();
  // Takes no more events: the guest never waits for a reader.
  void Discard();
  void Stop(StopReason reason);
  Status Reply(std::optional<std::string> text);

 private:
  class Sink : public run::EventSink {
   public:
    explicit Sink(RunCore& run) : run_(run) {}
    async::Task<bool> Emit(Event event) override { return run_.Put(std::move(event)); }

   private:
    RunCore& run_;
  };

  async::Task<bool> Put(Event event);
  void AwaitEnd(std::unique_lock<std::mutex>& lock);
  // With the lock held, which is released while a call is served. False: there is none.
  bool ServeOne(std::unique_lock<std::mutex>& lock);

  Host& host_;
  Sink sink_;
  std::shared_ptr<session::Run> run_;  // of the loop, until its end
  async::Notifier space_;              // of the loop
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::deque<ToolCall> calls_;  // the gate bounds their number
  size_t bytes_ = 0;
  bool discards_;
  std::optional<RunResult> result_;
  std::optional<Error> refusal_;
};

}  // namespace cella::library
