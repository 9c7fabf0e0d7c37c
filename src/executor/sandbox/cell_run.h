// One run of a runner: sends the cell, pumps output and frames into events, watches the clock and the guest's life, and
// ends it in the agreed order (SIGINT, a grace, SIGKILL). What the end means for the session is its own business.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/ready_set.h"
#include "executor/event_queue.h"
#include "executor/launch.h"
#include "executor/limits.h"
#include "executor/sandbox/runner.h"
#include "executor/session_guest.h"
#include "language/runner_protocol.h"
#include "os/cgroup.h"
#include "os/pidfd.h"

namespace cella::executor {

// What a run uses of its session. All of it outlives the run.
struct CellParts {
  async::Loop& loop;
  async::ReadySet& ready;  // with the descriptors below under the keys of CellKey
  Launch& launch;
  const os::CgroupMeter& meter;
  const Limits& limits;
  const LimitPlan& limit_plan;
  int out;  // what the guest writes
  int err;
  os::NamespaceId pid_namespace;  // the jail's
  // A checkpoint came: the automatic one, or a named one.
  std::function<void(const language::CheckpointFrame& frame, std::optional<RunnerCopy> copy)> on_checkpoint;
};

enum CellKey { kKeyOut, kKeyErr, kKeyControl, kKeyChannel, kKeyProcess };

struct RunEnd {
  std::optional<language::DoneFrame> done;  // nothing: the runner ended first
  std::optional<RunError> error;
  bool timed_out = false;
  bool cancelled = false;
  bool out_of_cpu_time = false;
  bool jail_gone = false;
  bool broke_protocol = false;
  jail::KillReason breach = jail::KillReason::kNone;
  std::optional<int> wait_status;  // of a runner that is init's child
  std::chrono::nanoseconds cpu{};  // that the group had used when the run began
};

class CellRun {
 public:
  // `sleepy`: a signal that comes when the runner is about to block may go unnoticed, so it is nudged afterwards.
  CellRun(const CellParts& parts, Runner& runner, bool sleepy, EventSink& sink)
      : parts_(parts),
        runner_(runner),
        sleepy_(sleepy),
        queue_(parts.loop, sink, [this] { parts_.ready.Wake(); }),
        cancelled_(parts.loop) {}

  // The runner is registered in the set. An Error is ours.
  async::Task<Result<RunEnd>> Run(const language::RunnerCell& cell, std::chrono::nanoseconds timeout);

  void Interrupt();  // also before Run(), for when there is something to interrupt
  void Cancel();
  // The code has ended; what it printed may still be on its way to the sink.
  bool is_over() const { return end_.done || over_ || end_.broke_protocol; }
  // Input is about to be sent, which may stay unread.
  void BeforeReply();

  // Takes what a runner has sent between two runs; false: it is not one any more.
  static bool TakeIdleFrames(const CellParts& parts, Runner& runner);
  // With the descriptors that came beside the frame.
  static void TakeCheckpoint(const CellParts& parts, Runner& runner, const language::CheckpointFrame& frame);

 private:
  void Escalate(async::TimePoint now);
  void DeliverInterrupt(async::TimePoint now);
  void Nudge(async::TimePoint now);
  async::TimePoint NextCpuCheck() const;
  void ReadOutput(int fd, Stream stream, size_t at_most);
  void TakeFrames();
  void TakeReports();
  void HoldOutput(bool hold);
  async::Task<void> AwaitEnd();
  async::Task<void> AwaitSignals();
  async::Task<void> HandOver();
  int Group();

  const CellParts& parts_;
  Runner& runner_;
  const bool sleepy_;
  EventQueue queue_;
  async::Event cancelled_;
  RunEnd end_;
  std::string run_id_;
  async::TimePoint deadline_ = async::TimePoint::max();
  async::TimePoint cpu_check_ = async::TimePoint::max();
  async::TimePoint interrupt_at_ = async::TimePoint::max();
  async::TimePoint young_until_ = async::TimePoint::max();
  async::TimePoint nudge_at_ = async::TimePoint::max();
  std::chrono::nanoseconds nudge_pause_{};
  async::TimePoint read_by_ = async::TimePoint::max();  // after that the runner is taken to have read the run
  bool sending_ = false;                                // the run itself
  bool signalled_ = false;                              // SIGINT was asked for
  uint32_t echo_ = 0;                                   // that tells that it was sent; 0: it was, or none is due
  bool ending_ = false;                                 // SIGINT was sent, or is sent as soon as the run was read
  bool killed_ = false;                                 // SIGKILL was sent
  bool over_ = false;                                   // the runner ended, or the jail did
  bool output_held_ = false;
  bool frames_left_ = false;    // there may be more than was taken
  bool process_ended_ = false;  // nothing more will be sent
};

}  // namespace cella::executor
