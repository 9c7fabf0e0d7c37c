#include "session/session.h"

#include "base/units.h"
#include "session/capped_sink.h"
#include "session/fold.h"
#include "session/rejected.h"

namespace cella::session {
namespace {

// What is left for a block when those before it took all the time: too little, so that it ends as a timeout.
constexpr std::chrono::nanoseconds kLeastTime = std::chrono::milliseconds(1);

// Both hear everything; the slower one sets the pace.
class TwoSinks : public executor::EventSink {
 public:
  TwoSinks(executor::EventSink& first, executor::EventSink* second) : first_(first), second_(second) {}

  async::Task<bool> Emit(Event event) override {
    if (second_ == nullptr) return first_.Emit(std::move(event));
    return EmitBoth(std::move(event));
  }

 private:
  async::Task<bool> EmitBoth(Event event) {
    (void)co_await second_->Emit(event);
    bool wanted = co_await first_.Emit(std::move(event));
    co_return wanted;
  }

  executor::EventSink& first_;
  executor::EventSink* second_;
};

class OutputTap : public executor::EventSink {
 public:
  using Listener = std::function<void(Stream, std::string_view)>;
  OutputTap(executor::EventSink& next, const Listener& listener) : next_(next), listener_(listener) {}

  async::Task<bool> Emit(Event event) override {
    auto* output = std::get_if<OutputEvent>(&event);
    if (output != nullptr && listener_) listener_(output->stream, output->bytes);
    return next_.Emit(std::move(event));
  }

 private:
  executor::EventSink& next_;
  const Listener& listener_;
};

}  // namespace

Session::Session(async::Loop& loop, SessionOptions options, std::unique_ptr<executor::SessionGuest> guest)
    : options_(std::move(options)),
      id_(NewSessionId()),
      guest_(std::move(guest)),
      turn_(loop, 1),
      timers_(loop),
      closing_event_(loop) {}

async::Task<Result<std::unique_ptr<Session>>> Session::Open(async::Loop& loop, executor::Executor& executor,
                                                            SessionOptions options) {
  auto guest = co_await executor.Open(options.request);
  if (!guest) co_return std::unexpected(std::move(guest.error()));
  std::unique_ptr<Session> session(new Session(loop, std::move(options), std::move(*guest)));
  session->timers_.Add(session->Expire());
  co_return std::move(session);
}

async::Task<Result<async::Gate::Pass>> Session::Enter() {
  if (closing_) co_return Err(ErrorCode::kClosed, "the session has ended: {}", closed_because_);
  if (turn_.waiting() >= options_.queue) {
    co_return Err(ErrorCode::kExhausted, "{} runs wait already: try again later", options_.queue);
  }
  auto pass = co_await turn_.Enter();
  if (closing_) co_return Err(ErrorCode::kClosed, "the session has ended: {}", closed_because_);
  co_return std::move(pass);
}

async::Task<Result<RunResult>> Session::Run(RunInput input, executor::EventSink* sink) {
  auto pass = co_await Enter();
  if (!pass) co_return std::unexpected(std::move(pass.error()));
  if (input.blocks.empty()) co_return Err(ErrorCode::kInvalid, "a run needs code");
  busy_ = true;
  cancelled_ = interrupted_ = false;
  if (input.on_turn) input.on_turn();
  const std::string run_id = input.id.empty() ? NewRunId() : input.id;
  ResultFold fold(run_id);
  TwoSinks both(fold, sink);
  CappedSink capped(both, options_.request.policy.limits.output.value);
  OutputTap tap(capped, input.on_output);
  const std::string& first = input.blocks.front().language;
  Event started = StartedEvent{first.empty() ? "python" : first, guest_->isolation()};
  (void)co_await both.Emit(std::move(started));
  executor::CellEnd end = co_await RunBlocks(input, run_id, tap);
  co_await capped.Flush();
  Event last = FinishedEvent{std::move(end.outcome), end.state, std::move(end.checkpoint)};
  (void)co_await both.Emit(std::move(last));
  RunResult result = fold.Take();
  result.session = id_;
  busy_ = false;
  Touch();
  co_return std::move(result);
}

async::Task<executor::CellEnd> Session::RunBlocks(RunInput& input, const std::string& run_id,
                                                  executor::EventSink& sink) {
  const auto timeout = input.timeout.value_or(options_.request.policy.limits.timeout.value);
  const async::TimePoint started = async::Clock::now();
  executor::CellEnd whole;
  Usage used;
  for (size_t i = 0; i < input.blocks.size(); ++i) {
    if (cancelled_ || interrupted_) {
      whole.outcome.status = cancelled_ ? RunStatus::kCancelled : RunStatus::kError;
      whole.outcome.exit_code = cancelled_ ? kExitCancelled : kExitInterrupted;
      if (!cancelled_) whole.outcome.error = RunError{"KeyboardInterrupt", "interrupted", ""};
      if (i == 0) whole.state = guest_->keeps_state() ? StateAfter::kKept : StateAfter::kNone;
      break;
    }
    executor::Cell cell;
    cell.run_id = run_id;
    cell.number = ++runs_;
    cell.block = std::move(input.blocks[i]);
    // All of them together have the time of one run.
    const auto used_up = i == 0 ? std::chrono::nanoseconds(0) : async::Clock::now() - started;
    cell.timeout = std::max<std::chrono::nanoseconds>(timeout - used_up, kLeastTime);
    cell.stdin_text = i == 0 ? std::move(input.stdin_text) : std::nullopt;
    cell.answers_input = input.answers_input;
    auto end = co_await guest_->Run(std::move(cell), sink);
    if (!end) {
      // Nothing ran, so nothing changed; unless there is nothing left to run in.
      const bool lost = end.error().code == ErrorCode::kClosed;
      whole.outcome = Rejected(end.error());
      whole.checkpoint = "off";
      whole.state = !guest_->keeps_state() ? StateAfter::kNone : lost ? StateAfter::kLost : StateAfter::kKept;
    } else {
      whole = std::move(*end);
    }
    used.wall_ms += whole.outcome.usage.wall_ms;
    used.cpu_ms += whole.outcome.usage.cpu_ms;
    used.peak_memory = std::max(used.peak_memory, whole.outcome.usage.peak_memory);
    if (whole.outcome.status != RunStatus::kOk) break;
  }
  whole.outcome.usage = used;
  co_return whole;
}

void Session::Interrupt() {
  if (!busy_) return;
  interrupted_ = true;
  guest_->Interrupt();
}

void Session::Cancel() {
  cancelled_ = true;
  guest_->Cancel();
}

void Session::Stop(std::string because) {
  if (std::exchange(closing_, true)) return;
  closed_because_ = std::move(because);
  closing_event_.Set();
  Cancel();
}

async::Task<Status> Session::InTurn(std::function<async::Task<Status>()> work) {
  auto pass = co_await Enter();
  if (!pass) co_return std::unexpected(std::move(pass.error()));
  auto done = co_await work();
  Touch();
  co_return done;
}

async::Task<Result<std::string>> Session::Ask(std::string language, language::Question question, std::string code,
                                              size_t cursor) {
  auto pass = co_await Enter();
  if (!pass) co_return std::unexpected(std::move(pass.error()));
  auto answer = co_await guest_->Ask(language, question, std::move(code), cursor);
  Touch();
  co_return answer;
}

async::Task<Status> Session::Reset() {
  return InTurn([this] { return guest_->Reset(); });
}

async::Task<Status> Session::SaveCheckpoint(std::string name) {
  return InTurn([this, name = std::move(name)] { return guest_->SaveCheckpoint(name); });
}

async::Task<Status> Session::Rollback(std::string name) {
  return InTurn([this, name = std::move(name)] { return guest_->Rollback(name); });
}

async::Task<Status> Session::DropCheckpoint(std::string name) {
  return InTurn([this, name = std::move(name)]() -> async::Task<Status> { co_return guest_->DropCheckpoint(name); });
}

async::Task<void> Session::Expire() {
  for (;;) {
    const async::TimePoint end_of_life = opened_ + options_.max_lifetime;
    const async::TimePoint end_of_idling = idle_since_ + options_.idle_timeout;
    const async::TimePoint now = async::Clock::now();
    if (now >= end_of_life) {
      Stop(fmt::format("it lived for {}", FormatDuration(options_.max_lifetime)));
      break;
    }
    if (!busy_ && now >= end_of_idling) {
      Stop(fmt::format("it was idle for {}", FormatDuration(options_.idle_timeout)));
      break;
    }
    // While a run is on, the idle time has not begun; somebody looks again when it may have passed.
    async::TimePoint next = busy_ ? now + options_.idle_timeout : end_of_idling;
    bool slept = co_await async::SleepUntil(std::min(next, end_of_life));
    if (!slept) co_return;
  }
  auto pass = co_await turn_.Enter();
  if (!std::exchange(ended_, true)) co_await guest_->Close();
}

async::Task<void> Session::Close() {
  Stop("it was closed");
  {
    auto pass = co_await turn_.Enter();
    if (!std::exchange(ended_, true)) co_await guest_->Close();
  }
  timers_.Cancel();
  co_await timers_.Join();
}

}  // namespace cella::session
