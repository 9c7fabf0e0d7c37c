// A cell in the application's own interpreter: sends it, turns frames into events, and asks for its end.
#pragma once

#include <deque>

#include "library/embedded/python_guest.h"

namespace cella::library {

class PythonRun : public run::Execution {
 public:
  // All outlives the execution. `lost` is set when the variables are gone.
  PythonRun(const PythonPlace& place, PythonLink& link, std::string run, bool* lost)
      : place_(place), link_(link), run_(std::move(run)), lost_(lost), sending_(place.loop) {}
  PythonRun(const PythonRun&) = delete;
  PythonRun& operator=(const PythonRun&) = delete;

  void Begin(const runner::Cell& cell);

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override;
  void Wake() override { link_.ready.Wake(); }
  void Send(run::StopStep step) override;
  void Answer(run::HostReply reply) override { Post(runner::EncodeInputReply(reply.value)); }
  bool HasStarted() override { return posted_.empty() && !link_.channel.HasUnread(); }
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override;

 private:
  void Post(std::string payload);
  async::Task<void> SendPosted();
  async::Task<void> TakeFrames(run::Output& out);
  void Take(runner::Frame frame, run::Output& out);

  const PythonPlace& place_;
  PythonLink& link_;
  const std::string run_;
  bool* const lost_;
  std::deque<std::string> posted_;  // that did not fit into the socket at once
  async::TaskGroup sending_;
  std::optional<runner::DoneFrame> done_;
  std::optional<RunError> error_;
  uint64_t calls_ = 0;
  bool started_told_ = false;
  bool held_ = false;         // the sink takes nothing: nor do we
  bool frames_left_ = false;  // there may be more than was taken
  bool gone_ = false;         // the session has ended
};

}  // namespace cella::library
