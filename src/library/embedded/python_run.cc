#include "library/embedded/python_run.h"

#include <sys/socket.h>

#include "base/json.h"
#include "library/embedded/libpython.h"

namespace cella::library {
namespace {

using namespace std::chrono_literals;
using async::Task;

constexpr int kKeyChannel = 0;
constexpr int kFramesPerTurn = 64;

}  // namespace

void PythonRun::Begin(const runner::Cell& cell) { Post(runner::EncodeRun(cell)); }

void PythonRun::Post(std::string payload) {
  if (posted_.empty() && link_.channel.SendNow(payload)) return;
  posted_.push_back(std::move(payload));
  if (posted_.size() == 1) sending_.Add(SendPosted());
}

// Until the block ends: the reading thread of the session waits for the interpreter's lock, as all of it does.
Task<void> PythonRun::SendPosted() {
  while (!posted_.empty()) {
    auto sent = co_await link_.channel.Send(place_.loop, posted_.front(), async::TimePoint::max());
    if (!sent) gone_ = true;
    if (!sent) posted_.clear();
    if (!posted_.empty()) posted_.pop_front();
  }
  Wake();
}

// Nothing of the process can be killed: a stronger request is repeated, and then the code is left to itself.
void PythonRun::Send(run::StopStep step) {
  if (!HasInterpreter()) {  // the application has finalised it: its threads have ended, and their sockets stay open
    gone_ = true;
    return Wake();
  }
  switch (step) {
    case run::StopStep::kInterrupt: Post(runner::EncodeInterrupt(run_)); break;
    case run::StopStep::kKill:
    case run::StopStep::kDestroy: Post(runner::EncodeCancel(run_)); break;
    case run::StopStep::kNudge:
    case run::StopStep::kNone:
    case run::StopStep::kGiveUp: break;
  }
}

void PythonRun::Take(runner::Frame frame, run::Output& out) {
  if (auto* done = std::get_if<runner::DoneFrame>(&frame)) {
    // One of an earlier run that was given up may still come.
    if (done->run == run_) done_ = std::move(*done);
  } else if (auto* output = std::get_if<OutputEvent>(&frame)) {
    out.Push(std::move(*output));
  } else if (auto* truncated = std::get_if<TruncatedEvent>(&frame)) {
    out.Push(*truncated);
  } else if (auto* error = std::get_if<ErrorEvent>(&frame)) {
    error_ = error->error;
    out.Push(std::move(*error));
  } else if (auto* value = std::get_if<ValueEvent>(&frame)) {
    out.Push(std::move(*value));
  } else if (auto* display = std::get_if<runner::DisplayFrame>(&frame)) {
    out.Push(std::move(display->display));
  } else if (auto* input = std::get_if<InputRequestEvent>(&frame)) {
    out.Push(std::move(*input));
    out.Call({++calls_, "input", "line", ""});
  }
}

Task<void> PythonRun::TakeFrames(run::Output& out) {
  frames_left_ = false;
  for (int count = 0; !done_ && !gone_; ++count) {
    if (out.full() || count == kFramesPerTurn) {
      frames_left_ = true;
      co_return;
    }
    auto arrival = link_.channel.Receive();
    if (!arrival) gone_ = true;
    if (gone_) co_return;
    auto payload = link_.channel.Next();
    if (!payload) {
      gone_ = *arrival == runner::Channel::Arrival::kClosed;
      co_return;
    }
    Result<runner::Frame> frame = Err(ErrorCode::kInternal, "nothing was decoded");
    if (payload->size() > kReadAtOnce) {
      // What the code made large takes its time elsewhere.
      const std::string large(*payload);
      auto decode = [&large] { return runner::DecodeFrame(large); };
      frame = co_await place_.pool.Run(decode);
      if (!frame && frame.error().code != ErrorCode::kInvalid) frame = decode();
    } else {
      frame = runner::DecodeFrame(*payload);
    }
    if (frame) Take(std::move(*frame), out);
  }
}

Task<run::Progress> PythonRun::Advance(async::TimePoint until, run::Output& out) {
  if (const bool hold = out.full(); hold != held_) {
    held_ = hold;
    if (hold) {
      link_.ready.Remove(link_.channel.fd());
    } else {
      (void)link_.ready.Add(link_.channel.fd(), kKeyChannel);
    }
  }
  if (frames_left_ && !out.full()) {
    co_await TakeFrames(out);
    if (frames_left_) Wake();
  }
  if (!done_ && !gone_) {
    link_.ready.SetDeadline(until);
    auto keys = co_await link_.ready.Wait();
    if (!keys.empty()) co_await TakeFrames(out);
    if (frames_left_) Wake();
  }
  if (done_) co_return run::Progress::kAnswered;
  if (gone_) co_return run::Progress::kGone;
  if (HasStarted() && !std::exchange(started_told_, true)) co_return run::Progress::kStarted;
  co_return run::Progress::kNothing;
}

Task<Result<run::RunFacts>> PythonRun::Finish(run::Output&) {
  // Half a request would corrupt the next one: then the socket is of no more use.
  if (!posted_.empty()) (void)shutdown(link_.channel.fd(), SHUT_RDWR);
  co_await sending_.Join();
  if (std::exchange(held_, false)) (void)link_.ready.Add(link_.channel.fd(), kKeyChannel);
  *lost_ = !done_ || done_->lost;
  run::RunFacts facts;
  if (done_) {
    using From = runner::DoneFrame::Status;
    using To = run::GuestAnswer::Status;
    const To status = done_->status == From::kOk      ? To::kOk
                      : done_->status == From::kError ? To::kError
                      : done_->status == From::kExit  ? To::kExit
                                                      : To::kInterrupted;
    facts.answer = run::GuestAnswer{status, done_->exit_code, done_->displays_dropped};
    facts.usage.cpu_ms = done_->cpu_ms;
  } else {
    facts.place_gone = gone_;
  }
  facts.error = std::move(error_);
  co_return facts;
}

}  // namespace cella::library
