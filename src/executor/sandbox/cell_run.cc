#include "executor/sandbox/cell_run.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "async/deadline.h"
#include "os/pidfd.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using Arrival = language::RunnerChannel::Arrival;

// After SIGINT, before the first signal that wakes an interpreter which was about to block when it came; each further
// one comes after twice the time.
constexpr auto kFirstNudge = 20ms;
constexpr auto kLastNudge = 2s;
// So young a run of a shell or of Node may be about to start its first command, which then feels nothing of SIGINT: it
// is sent again. Later that might end what a command does about the first one.
constexpr auto kYoung = 100ms;
// Between two looks whether a runner that is to be interrupted has read what it is to run.
constexpr auto kUnreadPause = 1ms;
// That long a runner may take to start. (Input that nobody waits for would look unread for ever.)
constexpr auto kReadPatience = 3s;
// After SIGKILL to the runner, before the whole jail is ended from outside.
constexpr auto kKillPatience = 2s;
// After a cancel, for a sink that does not take what is left.
constexpr auto kAbandonAfter = 250ms;
constexpr size_t kReadSize = 65536;
constexpr int kFramesPerTurn = 64;
// What /proc/sys/fs/pipe-max-size allows a guest to make of its pipe, at most.
constexpr size_t kLargestPipe = (size_t{1} << 20) + kReadSize;

// The two descriptors that come with a checkpoint; a guest may send us anything, a pidfd of ourselves included.
std::optional<RunnerCopy> TakeCopy(language::RunnerChannel& channel, const os::NamespaceId& pid_namespace) {
  UniqueFd socket = channel.TakeDescriptor();
  UniqueFd pidfd = channel.TakeDescriptor();
  if (!socket || !pidfd || !os::LivesIn(pidfd.get(), pid_namespace)) return std::nullopt;
  auto opened = language::RunnerChannel::Open(std::move(socket));
  if (!opened) return std::nullopt;
  return RunnerCopy{std::move(*opened), std::move(pidfd)};
}

}  // namespace

void CellRun::TakeCheckpoint(const CellParts& parts, Runner& runner, const language::CheckpointFrame& frame) {
  std::optional<RunnerCopy> copy;
  if (frame.status == "taken") copy = TakeCopy(runner.channel, parts.pid_namespace);
  parts.on_checkpoint(frame, std::move(copy));
}

bool CellRun::TakeIdleFrames(const CellParts& parts, Runner& runner) {
  // A checkpoint and a late answer are all that is due; somebody who sends on and on is no runner.
  for (int count = 0; count < kFramesPerTurn; ++count) {
    auto arrival = runner.channel.Receive();
    if (!arrival || *arrival == Arrival::kClosed) return false;
    auto payload = runner.channel.Next();
    if (!payload) return !(runner.pidfd && os::HasEnded(runner.pidfd.get()));
    auto frame = language::DecodeFrame(*payload);
    if (!frame) return false;
    if (auto* checkpoint = std::get_if<language::CheckpointFrame>(&*frame)) {
      TakeCheckpoint(parts, runner, *checkpoint);
    } else if (!std::holds_alternative<language::AnswerFrame>(*frame)) {
      return false;
    }
  }
  return false;
}

int CellRun::Group() {
  if (runner_.group == 0 && runner_.pidfd) {
    auto pids = os::NamespacePids(runner_.pidfd.get());
    if (pids) runner_.group = pids->back();
  }
  return runner_.group;
}

void CellRun::Interrupt() {
  interrupt_at_ = async::TimePoint::min();
  parts_.ready.Wake();
}

// First by a frame that says which run is meant, then by SIGINT, which a runner feels while it does not read frames.
// Before it has read the run it may not have its handler yet and would die of the signal; after that it may not have
// begun, and looks for the frame when it begins.
void CellRun::DeliverInterrupt(async::TimePoint now) {
  if (now < read_by_ && runner_.channel.HasUnread()) {
    interrupt_at_ = now + kUnreadPause;
    young_until_ = now + kYoung;
    return;
  }
  read_by_ = async::TimePoint::min();
  interrupt_at_ = async::TimePoint::max();
  runner_.channel.SendNow(language::EncodeInterrupt(run_id_));  // else the signal alone must do
  if (int group = Group(); group > 1) {
    parts_.launch.Signal(SIGINT, group);
    signalled_ = true;
  }
  if (sleepy_) {
    nudge_pause_ = kFirstNudge;
    nudge_at_ = now + nudge_pause_;
  } else if (now < young_until_) {
    young_until_ = async::TimePoint::min();
    interrupt_at_ = now + kFirstNudge;
  }
}

// Python notes a signal and looks at it later: one that comes between its look and a system call that blocks is seen
// only when that returns. A nudge makes it return, and means nothing else.
void CellRun::Nudge(async::TimePoint now) {
  if (int group = Group(); group > 1) parts_.launch.Nudge(group);
  nudge_pause_ *= 2;
  nudge_at_ = nudge_pause_ <= kLastNudge ? now + nudge_pause_ : async::TimePoint::max();
}

void CellRun::Cancel() {
  cancelled_.Set();
  parts_.ready.Wake();
  // It may never read: then nothing it could say is of interest.
  if (sending_) shutdown(runner_.channel.fd(), SHUT_RDWR);
}

void CellRun::BeforeReply() {
  if (!runner_.channel.HasUnread()) read_by_ = async::TimePoint::min();
}

async::TimePoint CellRun::NextCpuCheck() const {
  if (!parts_.limit_plan.cpu_time_by_cgroup) return async::TimePoint::max();
  auto used = parts_.meter.Cpu();
  if (!used) return async::TimePoint::max();
  auto left = parts_.limits.cpu_time.value - (*used - end_.cpu);
  if (left <= 0ns) return async::TimePoint::min();
  // Even with all processors busy it cannot get there sooner. (Asking how many there are reads a file.)
  static const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  auto soonest = left / processors;
  return async::Clock::now() + std::max<std::chrono::nanoseconds>(soonest, 5ms);
}

void CellRun::Escalate(async::TimePoint now) {
  if (now >= interrupt_at_) DeliverInterrupt(now);
  if (now >= nudge_at_) Nudge(now);
  if (cancelled_.is_set() && !ending_ && !killed_) deadline_ = now;
  if (now >= cpu_check_ && !ending_ && !killed_) {
    cpu_check_ = NextCpuCheck();
    if (cpu_check_ <= now) {
      end_.out_of_cpu_time = true;
      killed_ = true;
      cpu_check_ = async::TimePoint::max();
      parts_.launch.KillGuest(Group());
      deadline_ = now + kKillPatience;
    }
    return;
  }
  if (now < deadline_) return;
  if (killed_) {
    // It does not die (or is not who it says it was).
    parts_.launch.KillInit();
    deadline_ = async::TimePoint::max();
  } else if (ending_) {
    parts_.launch.KillGuest(Group());
    killed_ = true;
    deadline_ = now + kKillPatience;
  } else {
    (cancelled_.is_set() ? end_.cancelled : end_.timed_out) = true;
    cpu_check_ = async::TimePoint::max();
    DeliverInterrupt(now);
    ending_ = true;
    deadline_ = now + kInterruptGrace;
  }
}

void CellRun::ReadOutput(int fd, Stream stream, size_t at_most) {
  std::array<char, kReadSize> buffer;
  while (at_most > 0) {
    ssize_t n = os::RetryOnEintr([&] { return read(fd, buffer.data(), std::min(buffer.size(), at_most)); });
    if (n <= 0) return;
    at_most -= static_cast<size_t>(n);
    queue_.Push(OutputEvent{stream, std::string(buffer.data(), static_cast<size_t>(n))});
  }
}

// So many at a time: others live on this loop as well, and a reader that lags behind is waited for.
void CellRun::TakeFrames() {
  // What was written before these frames were sent is in the pipes, and comes first.
  ReadOutput(parts_.out, Stream::kStdout, kReadSize);
  ReadOutput(parts_.err, Stream::kStderr, kReadSize);
  for (int count = 0; count < kFramesPerTurn && !queue_.full(); ++count) {
    auto arrival = runner_.channel.Receive();
    if (!arrival) {
      end_.broke_protocol = true;
      return;
    }
    auto payload = runner_.channel.Next();
    if (!payload) {
      frames_left_ = false;
      // Closed at its end, or by its death: without the socket the runner is of no more use, alive or not.
      if (*arrival == Arrival::kClosed || process_ended_) over_ = true;
      return;
    }
    auto frame = language::DecodeFrame(*payload);
    if (!frame) {
      end_.broke_protocol = true;
      return;
    }
    if (auto* done = std::get_if<language::DoneFrame>(&*frame)) {
      if (done->run != run_id_) {
        end_.broke_protocol = true;
        return;
      }
      end_.done = std::move(*done);
      return;
    }
    if (auto* checkpoint = std::get_if<language::CheckpointFrame>(&*frame)) {
      TakeCheckpoint(parts_, runner_, *checkpoint);
      continue;
    }
    read_by_ = async::TimePoint::min();
    if (auto* error = std::get_if<ErrorEvent>(&*frame)) {
      end_.error = error->error;
      queue_.Push(std::move(*error));
    } else if (auto* value = std::get_if<ValueEvent>(&*frame)) {
      queue_.Push(std::move(*value));
    } else if (auto* display = std::get_if<DisplayEvent>(&*frame)) {
      queue_.Push(std::move(*display));
    } else if (auto* input = std::get_if<InputRequestEvent>(&*frame)) {
      queue_.Push(std::move(*input));
    }
  }
  frames_left_ = true;
}

void CellRun::TakeReports() {
  for (;;) {
    auto received = parts_.launch.Receive();
    if (!received || received->gone) {
      end_.jail_gone = over_ = true;
      return;
    }
    if (!received->report) return;
    const jail::Report& report = *received->report;
    if (report.kind == jail::ReportKind::kBreached) {
      end_.breach = report.killed_for;
      // Init has killed the group, which a guest may have left.
      if (!killed_) deadline_ = async::Clock::now() + kKillPatience;
      killed_ = true;
      cpu_check_ = async::TimePoint::max();
    }
    if (report.kind == jail::ReportKind::kEchoed && report.tag == echo_) echo_ = 0;
    if (report.kind == jail::ReportKind::kExited) {
      if (!runner_.zygote && report.tag == runner_.tag) {
        end_.wait_status = report.wait_status;
        over_ = true;
      } else {
        parts_.launch.KeepEnd(report);
      }
    }
  }
}

// While nobody takes what the guest writes, it waits at its pipe.
void CellRun::HoldOutput(bool hold) {
  if (hold == output_held_) return;
  output_held_ = hold;
  if (hold) {
    parts_.ready.Remove(parts_.out);
    parts_.ready.Remove(parts_.err);
    parts_.ready.Remove(runner_.channel.fd());
  } else {
    (void)parts_.ready.Add(parts_.out, kKeyOut);
    (void)parts_.ready.Add(parts_.err, kKeyErr);
    (void)parts_.ready.Add(runner_.channel.fd(), kKeyChannel);
  }
}

// Whoever reads the events decides how long this takes; somebody who cancels does not want to wait for that.
async::Task<void> CellRun::HandOver() {
  if (queue_.idle()) {
    // Handed on, though the task that did it may not have ended yet.
    co_await queue_.Drain();
    co_return;
  }
  async::TaskGroup impatience(parts_.loop);
  auto abandon = [](CellRun& self) -> async::Task<void> {
    bool cancelled = co_await self.cancelled_.Wait();
    if (!cancelled) co_return;
    bool slept = co_await async::SleepUntil(async::Clock::now() + kAbandonAfter);
    if (slept) self.queue_.Abandon();
  };
  impatience.Add(abandon(*this));
  co_await queue_.Drain();
  impatience.Cancel();
  co_await impatience.Join();
}

// The runner is not one any more: its socket closed a moment before it ended, or it never will by itself.
async::Task<void> CellRun::AwaitEnd() {
  HoldOutput(true);
  const async::TimePoint patience = async::Clock::now() + kInterruptGrace;
  const async::TimePoint last = patience + kKillPatience;
  auto ended = [this] {
    return end_.jail_gone || end_.wait_status || (runner_.pidfd && os::HasEnded(runner_.pidfd.get()));
  };
  while (!ended() && async::Clock::now() < last) {
    if (!killed_ && (end_.broke_protocol || async::Clock::now() >= patience)) {
      parts_.launch.KillGuest(Group());
      killed_ = true;
    }
    parts_.ready.SetDeadline(killed_ ? last : patience);
    auto keys = co_await parts_.ready.Wait();
    for (int key : keys) {
      if (key == kKeyControl) TakeReports();
    }
  }
  // Why it was killed is told before it is killed, but may not have been read yet.
  if (!end_.jail_gone) TakeReports();
}

// Init sends our signals, at its own pace: one that is still to come must not meet the next run. What Python was just
// starting when the first came felt nothing of it, and Python may have forgotten it: hence one more, for such children.
async::Task<void> CellRun::AwaitSignals() {
  HoldOutput(true);
  if (sleepy_) parts_.launch.Signal(SIGINT, Group());
  echo_ = parts_.launch.AskForEcho();
  const async::TimePoint last = async::Clock::now() + kKillPatience;
  while (echo_ != 0 && !end_.jail_gone && !process_ended_ && async::Clock::now() < last) {
    parts_.ready.SetDeadline(last);
    auto keys = co_await parts_.ready.Wait();
    for (int key : keys) {
      if (key == kKeyControl) TakeReports();
      if (key == kKeyProcess) process_ended_ = true;
    }
  }
}

async::Task<Result<RunEnd>> CellRun::Run(const language::RunnerCell& cell, std::chrono::nanoseconds timeout) {
  run_id_ = cell.run;
  const async::TimePoint started = async::Clock::now();
  deadline_ = timeout > std::chrono::hours(24 * 365) ? async::TimePoint::max() : started + timeout;
  end_.cpu = parts_.meter.Cpu().value_or(0ns);
  cpu_check_ = NextCpuCheck();
  const auto& watch = parts_.limit_plan.watch;
  const bool watched = watch.memory_bytes != 0 || watch.cpu_ns != 0 || watch.processes != 0;
  if (watched) parts_.launch.WatchRun(Group());
  std::string payload = language::EncodeRun(cell);
  sending_ = true;
  auto sent = co_await runner_.channel.Send(parts_.loop, payload, deadline_);
  sending_ = false;
  young_until_ = async::Clock::now() + kYoung;
  read_by_ = async::Clock::now() + kReadPatience;
  if (!sent) {
    over_ = true;
    end_.cancelled = cancelled_.is_set();
    end_.timed_out = !end_.cancelled && async::Clock::now() >= deadline_;
  }

  while (!end_.done && !over_ && !end_.broke_protocol) {
    Escalate(async::Clock::now());
    HoldOutput(queue_.full());
    if (frames_left_ && !queue_.full()) {
      TakeFrames();
      if (end_.done || end_.broke_protocol || over_) break;
      if (frames_left_) parts_.ready.Wake();
    }
    parts_.ready.SetDeadline(std::min({deadline_, cpu_check_, interrupt_at_, nudge_at_}));
    auto keys = co_await parts_.ready.Wait();
    for (int key : keys) {
      switch (key) {
        case kKeyOut: ReadOutput(parts_.out, Stream::kStdout, kReadSize); break;
        case kKeyErr: ReadOutput(parts_.err, Stream::kStderr, kReadSize); break;
        case kKeyControl: TakeReports(); break;
        // A frame that is there counts even if its sender has ended since.
        case kKeyChannel: TakeFrames(); break;
        case kKeyProcess:
          // What it has sent is all there will be, and is taken as room allows.
          process_ended_ = true;
          frames_left_ = true;
          parts_.ready.Remove(runner_.pidfd.get());
          break;
        default: break;
      }
      if (end_.done || end_.broke_protocol) break;
    }
  }
  if (!end_.done) {
    co_await AwaitEnd();
  } else if (signalled_) {
    co_await AwaitSignals();
  }
  // What the code wrote is in the pipes; what others go on writing is not waited for.
  ReadOutput(parts_.out, Stream::kStdout, kLargestPipe);
  ReadOutput(parts_.err, Stream::kStderr, kLargestPipe);
  HoldOutput(false);
  if (watched && !end_.jail_gone) parts_.launch.WatchRun(0);
  co_await HandOver();
  co_return std::move(end_);
}

}  // namespace cella::executor
