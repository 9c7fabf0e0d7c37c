#include "session/session.h"

#include "base/units.h"
#include "session/capped_sink.h"
#include "session/fold.h"
#include "session/rejected.h"

namespace cella::session {
namespace {

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

}  // namespace

Session::Session(async::Loop& loop, SessionOptions options, std::unique_ptr<executor::SessionGuest> guest)
    : options_(std::move(options)), id_(NewSessionId()), guest_(std::move(guest)), turn_(loop, 1), timers_(loop) {}

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
  busy_ = true;
  executor::Cell cell;
  cell.run_id = NewRunId();
  cell.number = ++runs_;
  cell.block = std::move(input.block);
  cell.timeout = input.timeout.value_or(options_.request.policy.limits.timeout.value);
  cell.stdin_text = std::move(input.stdin_text);
  cell.answers_input = input.answers_input;

  ResultFold fold(cell.run_id);
  TwoSinks both(fold, sink);
  CappedSink capped(both, options_.request.policy.limits.output.value);
  Event started = StartedEvent{cell.block.language.empty() ? "python" : cell.block.language, guest_->isolation()};
  (void)co_await both.Emit(std::move(started));
  auto end = co_await guest_->Run(std::move(cell), capped);
  co_await capped.Flush();
  FinishedEvent finished;
  if (end) {
    finished = {std::move(end->outcome), end->state, std::move(end->checkpoint)};
  } else {
    // Nothing ran, so nothing changed; unless there is nothing left to run in.
    const bool lost = end.error().code == ErrorCode::kClosed;
    finished = {Rejected(end.error()),
                !guest_->keeps_state() ? StateAfter::kNone
                : lost                 ? StateAfter::kLost
                                       : StateAfter::kKept,
                "off"};
  }
  Event last = std::move(finished);
  (void)co_await both.Emit(std::move(last));
  RunResult result = fold.Take();
  result.session = id_;
  busy_ = false;
  Touch();
  co_return std::move(result);
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
      closed_because_ = fmt::format("it lived for {}", FormatDuration(options_.max_lifetime));
      break;
    }
    if (!busy_ && now >= end_of_idling) {
      closed_because_ = fmt::format("it was idle for {}", FormatDuration(options_.idle_timeout));
      break;
    }
    // While a run is on, the idle time has not begun; somebody looks again when it may have passed.
    async::TimePoint next = busy_ ? now + options_.idle_timeout : end_of_idling;
    bool slept = co_await async::SleepUntil(std::min(next, end_of_life));
    if (!slept) co_return;
  }
  closing_ = true;
  guest_->Cancel();
  auto pass = co_await turn_.Enter();
  if (!std::exchange(ended_, true)) co_await guest_->Close();
}

async::Task<void> Session::Close() {
  closing_ = true;
  guest_->Cancel();
  {
    auto pass = co_await turn_.Enter();
    if (!std::exchange(ended_, true)) co_await guest_->Close();
  }
  timers_.Cancel();
  co_await timers_.Join();
}

}  // namespace cella::session
