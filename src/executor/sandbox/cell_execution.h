// A block that runs in a runner: sends the cell, turns output and frames into events, and carries out the steps of a
// stop. What the end means for the session is the guest's business.
#pragma once

#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <string>

#include "async/task_group.h"
#include "confine/block_usage.h"
#include "executor/sandbox/cell_context.h"
#include "executor/sandbox/marked_text.h"
#include "run/executor.h"
#include "runner/protocol.h"

namespace cella::executor {

class CellExecution : public run::Execution {
 public:
  // The runner is registered in the set. `nudged`: a signal that arrives when the interpreter is about to block may go
  // unnoticed, so nudges have an effect.
  CellExecution(const CellContext& context, Runner& runner, bool nudged);
  CellExecution(const CellExecution&) = delete;
  CellExecution& operator=(const CellExecution&) = delete;

  // Sends the cell; a large one is sent while Advance waits.
  void Begin(runner::Cell cell);

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override;
  void Wake() override { context_.ready.Wake(); }
  void Send(run::StopStep step) override;
  void Answer(run::HostReply reply) override;
  bool HasStarted() override;
  std::optional<std::chrono::nanoseconds> CpuUsed() const override;
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override;

 private:
  void Post(std::string payload);
  async::Task<void> EncodeAndSend(runner::Cell cell);
  async::Task<void> SendPosted();
  void Interrupt();
  // A stream of text, and the marks in it.
  struct Text {
    Stream stream;
    int fd;
    int key;
    MarkedText marked;
    bool held = false;  // the descriptor is not in the set of the ready ones
  };

  enum class Got { kSome, kNothing };
  Got ReadOutput(run::Output& out, Text& text);
  void PassOn(run::Output& out, Text& text);
  void ReadRest(run::Output& out, Text& text);
  bool TakeTextBefore(run::Output& out, uint64_t mark);
  void ShowWaiting(run::Output& out);
  void Release(run::Output& out, uint64_t mark);
  void CheckMarks(run::Output& out);
  void Emit(run::Output& out, runner::Frame frame);
  void TakeFrames(run::Output& out);
  async::Task<void> TakeLargeFrame(run::Output& out);
  bool TakeFrame(runner::Frame frame, run::Output& out);
  void TakeReports();
  void Hold(const run::Output& out);
  void Hold(bool output, bool errors, bool frames);
  void Hold(bool& held, bool hold, int fd, int key);
  bool IsOver() const { return answer_ || gone_ || broke_protocol_; }
  bool ProcessHasEnded() const;
  async::Task<void> AwaitEnd();
  async::Task<void> AwaitSignals();
  async::Task<std::optional<int>> WaitStatus();

  const CellContext& context_;
  Runner& runner_;
  const bool nudged_;
  std::string run_id_;
  const confine::MeteredUsage used_;
  const std::string mark_;  // the token of the marks in the text
  std::array<Text, 2> texts_;
  uint64_t calls_ = 0;
  std::list<std::string> posted_;  // payloads that did not fit into the socket at once
  async::TaskGroup sending_;
  async::TimePoint read_at_{};  // when the runner was first seen to have read the run

  std::optional<runner::DoneFrame> answer_;
  std::optional<RunError> error_;
  std::optional<int> wait_status_;  // of a runner that is init's child
  jail::KillReason breach_ = jail::KillReason::kNone;
  bool breach_told_ = false;
  bool started_ = false;
  bool started_told_ = false;
  bool gone_ = false;  // the runner ended, or the jail did
  bool broke_protocol_ = false;
  bool interrupted_ = false;  // SIGINT was sent
  bool resend_ = false;       // the first nudge sends the interrupt once more
  bool killed_ = false;
  bool frames_left_ = false;  // there may be more than was taken
  std::string large_;         // a frame that is not decoded yet; empty: there is none
  // A frame that waits for the text before it.
  std::optional<runner::Frame> waiting_;
  size_t read_for_waiting_ = 0;
  async::TimePoint patience_ = async::TimePoint::max();  // for a mark, or for the display of a mark
  bool process_ended_ = false;                           // no more frames will come
  bool channel_held_ = false;
};

}  // namespace cella::executor
