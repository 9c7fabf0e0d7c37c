#include "executor/sandbox/cell_execution.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/random.h"
#include "confine/launch_errors.h"
#include "confine/program_output.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// A run of a shell or of Node this young may be about to start its first command, which would miss SIGINT: it is sent
// again. Later a second one could end what a command does about the first.
constexpr auto kYoung = 100ms;
// A runner that is about to send the display of a mark may get no processor for a while; a mark that a guest forged has
// no display.
constexpr auto kMarkPatience = 2s;
// A reply to an input request may stay unread that long before the runner counts as lost.
constexpr auto kReplyPatience = 10s;
// A frame of this size fits into one buffer of the kernel, which takes it whole or refuses it.
constexpr size_t kSmallFrame = 16384;
using confine::kLargestPipe;
using confine::kReadSize;

run::GuestAnswer ToAnswer(const runner::DoneFrame& done) {
  using From = runner::DoneFrame::Status;
  using To = run::GuestAnswer::Status;
  const To status = done.status == From::kOk      ? To::kOk
                    : done.status == From::kError ? To::kError
                    : done.status == From::kExit  ? To::kExit
                                                  : To::kInterrupted;
  return {status, done.exit_code, done.displays_dropped};
}

}  // namespace

CellExecution::CellExecution(const CellContext& context, Runner& runner, bool nudged)
    : context_(context),
      runner_(runner),
      nudged_(nudged),
      used_(context.meter),
      mark_(RandomHex(16)),
      texts_{Text{Stream::kStdout, context.out, kKeyOut, MarkedText(mark_)},
             Text{Stream::kStderr, context.err, kKeyErr, MarkedText(mark_)}},
      sending_(context.loop) {}

void CellExecution::Begin(runner::Cell cell) {
  run_id_ = cell.run;
  cell.mark = mark_;
  (void)context_.jail.TakeBreach();  // of an earlier run
  if (context_.limit_plan.IsWatched()) context_.jail.WatchRun(runner_.Group());
  size_t size = cell.code.size() + (cell.stdin_text ? cell.stdin_text->size() : 0);
  for (const runner::Value& value : cell.variables) size += value.data.size();
  if (size <= kSmallFrame) {
    return Post(runner::EncodeRun(cell));
  }
  posted_.emplace_back();
  sending_.Add(EncodeAndSend(std::move(cell)));
}

// Megabytes take the time of many requests.
async::Task<void> CellExecution::EncodeAndSend(runner::Cell cell) {
  auto encode = [&cell]() -> Result<std::string> { return runner::EncodeRun(cell); };
  auto encoded = co_await context_.decoding.Run(encode);
  if (posted_.empty()) co_return;  // the run was killed meanwhile
  posted_.front() = encoded ? std::move(*encoded) : runner::EncodeRun(cell);
  co_await SendPosted();
}

// Small payloads go at once. What the socket has no room for is sent by a task, in order.
void CellExecution::Post(std::string payload) {
  if (posted_.empty() && payload.size() <= kSmallFrame && runner_.channel.SendNow(payload)) return;
  posted_.push_back(std::move(payload));
  if (posted_.size() == 1) sending_.Add(SendPosted());
}

async::Task<void> CellExecution::SendPosted() {
  while (!posted_.empty()) {
    const bool is_run = !started_;
    const async::TimePoint deadline = is_run ? async::TimePoint::max() : async::Clock::now() + kReplyPatience;
    auto sent = co_await runner_.channel.Send(context_.loop, posted_.front(), deadline);
    if (!sent) gone_ = true;
    if (!sent) posted_.clear();
    if (!posted_.empty()) posted_.pop_front();
  }
  Wake();
}

bool CellExecution::HasStarted() {
  if (!started_ && posted_.empty() && !runner_.channel.HasUnread()) started_ = true;
  if (started_ && read_at_ == async::TimePoint{}) read_at_ = async::Clock::now();
  return started_;
}

// First a frame that names the run, then SIGINT: a runner that runs code does not read frames, and the signal makes it
// look for one.
void CellExecution::Interrupt() {
  runner_.channel.SendNow(runner::EncodeInterrupt(run_id_));  // if it does not fit, the signal alone must do
  if (int group = runner_.Group(); group > 1) {
    context_.jail.Signal(SIGINT, group);
    interrupted_ = true;
  }
}

void CellExecution::Send(run::StopStep step) {
  switch (step) {
    case run::StopStep::kInterrupt:
      (void)HasStarted();
      resend_ = !nudged_ && async::Clock::now() < read_at_ + kYoung;
      Interrupt();
      break;
    case run::StopStep::kNudge:
      if (!nudged_ && std::exchange(resend_, false)) Interrupt();
      if (int group = runner_.Group(); nudged_ && group > 1) context_.jail.Nudge(group);
      break;
    case run::StopStep::kKill:
      context_.jail.KillGuest(runner_.Group());
      killed_ = true;
      // The runner may never read: then nothing that it could send matters.
      if (!posted_.empty()) (void)shutdown(runner_.channel.fd(), SHUT_RDWR);
      break;
    case run::StopStep::kDestroy: context_.jail.KillInit(); break;
    case run::StopStep::kNone:
    case run::StopStep::kGiveUp: break;
  }
}

void CellExecution::Answer(run::HostReply reply) { Post(runner::EncodeInputReply(reply.value)); }

std::optional<std::chrono::nanoseconds> CellExecution::CpuUsed() const {
  if (!context_.limit_plan.cpu_time_by_cgroup) return std::nullopt;
  return used_.Cpu();
}

// Not while the text stands at a mark: what is behind it waits in the pipe.
CellExecution::Got CellExecution::ReadOutput(run::Output& out, Text& text) {
  if (text.marked.stands_at() > 0) return Got::kNothing;
  std::array<char, kReadSize> buffer;
  const ssize_t n = os::RetryOnEintr([&] { return read(text.fd, buffer.data(), buffer.size()); });
  if (n <= 0) return Got::kNothing;
  text.marked.Feed({buffer.data(), static_cast<size_t>(n)});
  PassOn(out, text);
  return Got::kSome;
}

void CellExecution::PassOn(run::Output& out, Text& text) {
  if (std::string bytes = text.marked.Take(); !bytes.empty()) out.Push(OutputEvent{text.stream, std::move(bytes)});
  if (text.marked.stands_at() > 0 && patience_ == async::TimePoint::max()) {
    patience_ = async::Clock::now() + kMarkPatience;
  }
}

// At the end of the run.
void CellExecution::ReadRest(run::Output& out, Text& text) {
  text.marked.Release(UINT64_MAX);
  PassOn(out, text);
  for (size_t taken = 0; taken < kLargestPipe && ReadOutput(out, text) == Got::kSome; taken += kReadSize) {
  }
  if (std::string bytes = text.marked.Rest(); !bytes.empty()) out.Push(OutputEvent{text.stream, std::move(bytes)});
}

void CellExecution::Release(run::Output& out, uint64_t mark) {
  for (Text& text : texts_) {
    text.marked.Release(mark);
    PassOn(out, text);
  }
}

// Passes on what was written before this mark; without a mark, what is in the pipes. False: the sink is full, or the
// mark has not come yet.
bool CellExecution::TakeTextBefore(run::Output& out, uint64_t mark) {
  // The displays of earlier marks will not come any more.
  Release(out, mark == 0 ? std::max(texts_[0].marked.stands_at(), texts_[1].marked.stands_at()) : mark - 1);
  bool all = true;
  for (Text& text : texts_) {
    while (mark == 0 || text.marked.reached() < mark) {
      if (out.full()) return false;
      // A process in the background may write without end.
      if (read_for_waiting_ > 2 * kLargestPipe) break;
      if (ReadOutput(out, text) == Got::kNothing) {
        all = all && mark == 0;
        break;
      }
      read_for_waiting_ += kReadSize;
    }
  }
  return all || read_for_waiting_ > 2 * kLargestPipe;
}

void CellExecution::ShowWaiting(run::Output& out) {
  const auto* display = std::get_if<runner::DisplayFrame>(&*waiting_);
  const uint64_t mark = display == nullptr ? 0 : display->mark;
  if (!TakeTextBefore(out, mark)) {
    const async::TimePoint now = async::Clock::now();
    if (patience_ == async::TimePoint::max()) patience_ = now + kMarkPatience;
    if (out.full() || (now < patience_ && !process_ended_)) return;
  }
  runner::Frame frame = std::move(*waiting_);
  waiting_.reset();
  patience_ = async::TimePoint::max();
  Emit(out, std::move(frame));
  Release(out, mark);
}

// A display that has not come within its time never will.
void CellExecution::CheckMarks(run::Output& out) {
  if (waiting_) {
    ShowWaiting(out);
  } else if (async::Clock::now() >= patience_) {
    patience_ = async::TimePoint::max();
    Release(out, std::max(texts_[0].marked.stands_at(), texts_[1].marked.stands_at()));
  }
}

void CellExecution::Emit(run::Output& out, runner::Frame frame) {
  if (auto* error = std::get_if<ErrorEvent>(&frame)) {
    error_ = error->error;
    out.Push(std::move(*error));
  } else if (auto* value = std::get_if<ValueEvent>(&frame)) {
    out.Push(std::move(*value));
  } else if (auto* shown = std::get_if<runner::DisplayFrame>(&frame)) {
    out.Push(std::move(shown->display));
  } else if (auto* input = std::get_if<InputRequestEvent>(&frame)) {
    out.Push(std::move(*input));
    out.Call({++calls_, "input", "line", ""});
  }
}

bool CellExecution::TakeFrame(runner::Frame frame, run::Output& out) {
  if (auto* done = std::get_if<runner::DoneFrame>(&frame)) {
    if (done->run != run_id_) {
      broke_protocol_ = true;
    } else {
      answer_ = std::move(*done);
    }
    return false;
  }
  if (auto* checkpoint = std::get_if<runner::CheckpointFrame>(&frame)) {
    TakeCheckpoint(context_, runner_, *checkpoint);
    return true;
  }
  started_ = true;
  waiting_ = std::move(frame);
  read_for_waiting_ = 0;
  ShowWaiting(out);
  return !waiting_ && !out.full();
}

// So many at a time: other runs live on this loop as well, and a reader that lags behind is waited for.
void CellExecution::TakeFrames(run::Output& out) {
  // What comes behind a frame that waits, or is to be decoded, waits too.
  if (waiting_ || !large_.empty() || out.full()) {
    frames_left_ = true;
    return;
  }
  const FramesEnd end =
      ReadFrames(runner_.channel, {}, &large_, [&](runner::Frame frame) { return TakeFrame(std::move(frame), out); });
  frames_left_ = end == FramesEnd::kBound || end == FramesEnd::kStopped || end == FramesEnd::kLarge;
  if (end == FramesEnd::kBroken) broke_protocol_ = true;
  // Without its socket the runner is of no more use, alive or not.
  if (end == FramesEnd::kClosed || (end == FramesEnd::kDrained && process_ended_)) gone_ = true;
}

// The frames behind it wait, so that events keep their order.
async::Task<void> CellExecution::TakeLargeFrame(run::Output& out) {
  const std::string payload = std::exchange(large_, {});
  auto decode = [&payload]() -> Result<runner::Frame> { return runner::DecodeFrame(payload); };
  auto frame = co_await context_.decoding.Run(decode);
  // Too many wait for the pool. The work is bounded all the same.
  if (!frame && frame.error().code != ErrorCode::kInvalid) frame = decode();
  if (!frame) {
    broke_protocol_ = true;
  } else {
    (void)TakeFrame(std::move(*frame), out);
  }
}

void CellExecution::TakeReports() {
  context_.jail.TakeReports();
  if (context_.jail.gone()) gone_ = true;
  if (auto breach = context_.jail.TakeBreach(); breach != jail::KillReason::kNone) {
    breach_ = breach;
    killed_ = true;
  }
  if (runner_.zygote) return;
  if (auto end = context_.jail.TakeEnd(runner_.tag)) {
    wait_status_ = end->wait_status;
    gone_ = true;
  }
}

void CellExecution::Hold(bool& held, bool hold, int fd, int key) {
  if (held == hold) return;
  held = hold;
  if (hold) {
    context_.ready.Remove(fd);
  } else {
    (void)context_.ready.Add(fd, key);
  }
}

void CellExecution::Hold(bool output, bool errors, bool frames) {
  Hold(texts_[0].held, output, texts_[0].fd, texts_[0].key);
  Hold(texts_[1].held, errors, texts_[1].fd, texts_[1].key);
  Hold(channel_held_, frames, runner_.channel.fd(), kKeyChannel);
}

// While the sink takes nothing, or text stands at a mark, what the guest writes stays in its pipe.
void CellExecution::Hold(const run::Output& out) {
  auto holds = [&](const Text& text) { return out.full(text.stream) || text.marked.stands_at() > 0; };
  Hold(holds(texts_[0]), holds(texts_[1]), waiting_ || out.full());
}

async::Task<run::Progress> CellExecution::Advance(async::TimePoint until, run::Output& out) {
  if (!large_.empty()) co_await TakeLargeFrame(out);
  CheckMarks(out);
  Hold(out);
  if (frames_left_ && !waiting_ && !out.full() && !IsOver()) {
    TakeFrames(out);
    if (frames_left_) Wake();
  }
  if (!IsOver()) {
    context_.ready.SetDeadline(std::min(until, patience_));
    auto keys = co_await context_.ready.Wait();
    for (int key : keys) {
      switch (key) {
        case kKeyOut: (void)ReadOutput(out, texts_[0]); break;
        case kKeyErr: (void)ReadOutput(out, texts_[1]); break;
        case kKeyControl: TakeReports(); break;
        // A frame that is there counts even if its sender has ended since.
        case kKeyChannel: TakeFrames(out); break;
        case kKeyProcess:
          // What the runner has sent is all there will be, and is taken as room allows.
          process_ended_ = true;
          frames_left_ = true;
          context_.ready.Remove(runner_.pidfd.get());
          break;
        default: break;
      }
      if (answer_ || broke_protocol_) break;
    }
  }
  if (answer_) co_return run::Progress::kAnswered;
  if (IsOver()) co_return run::Progress::kGone;
  if (breach_ != jail::KillReason::kNone && !std::exchange(breach_told_, true)) co_return run::Progress::kKilledHere;
  if (started_ && !std::exchange(started_told_, true)) co_return run::Progress::kStarted;
  co_return run::Progress::kNothing;
}

bool CellExecution::ProcessHasEnded() const {
  return context_.jail.gone() || wait_status_ || (runner_.pidfd && os::HasEnded(runner_.pidfd.get()));
}

// The runner broke its protocol or closed its socket: a moment before it ends, or it never will by itself.
async::Task<void> CellExecution::AwaitEnd() {
  Hold(true, true, true);
  const async::TimePoint patience = async::Clock::now() + run::kInterruptGrace;
  const async::TimePoint last = patience + run::kKillPatience;
  while (!ProcessHasEnded() && async::Clock::now() < last) {
    if (!killed_ && (broke_protocol_ || async::Clock::now() >= patience)) Send(run::StopStep::kKill);
    context_.ready.SetDeadline(killed_ ? last : patience);
    auto keys = co_await context_.ready.Wait();
    for (int key : keys) {
      if (key == kKeyControl) TakeReports();
    }
  }
  // Init reports why it kills before it kills, but the report may not have been read yet.
  if (!context_.jail.gone()) TakeReports();
}

// Init sends our signals at its own pace, and a late one must not meet the next run. A child that Python was just
// starting when the first signal came missed it, and Python may have lost track of the child: hence one more.
async::Task<void> CellExecution::AwaitSignals() {
  Hold(true, true, true);
  if (nudged_) context_.jail.Signal(SIGINT, runner_.Group());
  const uint32_t echo = context_.jail.AskForEcho();
  const async::TimePoint last = async::Clock::now() + run::kKillPatience;
  while (!context_.jail.WasEchoed(echo) && !context_.jail.gone() && !process_ended_ && async::Clock::now() < last) {
    context_.ready.SetDeadline(last);
    auto keys = co_await context_.ready.Wait();
    for (int key : keys) {
      if (key == kKeyControl) TakeReports();
      if (key == kKeyProcess) process_ended_ = true;
    }
  }
}

async::Task<std::optional<int>> CellExecution::WaitStatus() {
  if (wait_status_ || !runner_.zygote) co_return wait_status_;
  if (!runner_.pidfd || !os::HasEnded(runner_.pidfd.get())) co_return std::nullopt;
  auto end = co_await runner_.zygote->WaitEnd(runner_.tag);
  if (!end) co_return std::nullopt;
  co_return end->wait_status;
}

async::Task<Result<run::RunFacts>> CellExecution::Finish(run::Output& out) {
  // A reply that is half sent would corrupt the next frame; the runner reads it when it reads its next one.
  if (!posted_.empty() && !answer_) (void)shutdown(runner_.channel.fd(), SHUT_RDWR);
  co_await sending_.Join();
  if (!answer_) {
    co_await AwaitEnd();
  } else if (interrupted_) {
    co_await AwaitSignals();
  }
  if (waiting_) {
    // The sink did not take it while the run was on.
    (void)TakeTextBefore(out, 0);
    Emit(out, std::move(*std::exchange(waiting_, std::nullopt)));
  }
  // What the code wrote is in the pipes; what its background processes write later is not waited for.
  for (Text& text : texts_) ReadRest(out, text);
  Hold(false, false, false);
  const bool place_gone = context_.jail.gone();
  if (context_.limit_plan.IsWatched() && !place_gone) context_.jail.WatchRun(0);
  if (!answer_ && runner_.zygote) {
    // It failed before it became a guest: that is ours to explain.
    if (auto failure = runner_.zygote->TakeFailure(runner_.tag)) {
      co_return std::unexpected(confine::ExplainExecFailure(*failure));
    }
  }
  run::RunFacts facts;
  if (answer_) facts.answer = ToAnswer(*answer_);
  if (!answer_) facts.wait_status = co_await WaitStatus();
  facts.owes_answer = true;
  facts.error = std::move(error_);
  facts.killed_for = confine::ToStopReason(breach_);
  facts.place_gone = place_gone;
  facts.broke_protocol = broke_protocol_;
  if (answer_) facts.usage.cpu_ms = answer_->cpu_ms;  // where no cgroup counts
  used_.AddTo(&facts);
  co_return facts;
}

}  // namespace cella::executor
