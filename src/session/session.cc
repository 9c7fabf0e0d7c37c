#include "session/session.h"

#include <algorithm>

#include "async/caught.h"
#include "base/cpu_time.h"
#include "base/units.h"
#include "run/capability.h"
#include "session/fold.h"
#include "session/rejected.h"
#include "session/variables.h"

namespace cella::session {
namespace {

// What is left for a block when those before it took all the time: too little, so that it ends as a timeout.
constexpr std::chrono::nanoseconds kLeastTime = std::chrono::milliseconds(1);

run::HostCallBounds BoundsOf(const Limits& limits) {
  run::HostCallBounds bounds;
  bounds.in_flight = limits.calls_at_once.value;
  bounds.per_run = limits.calls.value;
  bounds.argument_bytes = bounds.value_bytes = limits.call_size.value;
  return bounds;
}

Error NotSupported(std::string_view what, const Isolation& isolation) {
  return Error{ErrorCode::kUnsupported,
               fmt::format("the {} executor has no {}: use the sandbox executor", isolation.executor, what), 0};
}

}  // namespace

Session::Session(async::Loop& loop, SessionOptions options, std::unique_ptr<run::Guest> guest, bool alone)
    : loop_(loop),
      options_(std::move(options)),
      id_(NewSessionId()),
      alone_(alone),
      guest_(std::move(guest)),
      calls_(loop, BoundsOf(options_.guest.policy.limits)),
      turn_(loop, 1),
      timers_(loop),
      runs_(loop),
      closing_event_(loop) {
  for (const auto& [space, handler] : options_.spaces) calls_.Route(run::CallDoor::kSocket, space, *handler);
  if (options_.on_call) RecordCalls();
}

void Session::RecordCalls() {
  auto run_id = [this] { return current_ ? current_->id() : std::string(); };
  calls_.SetAuditor([this, run_id](run::HostCallRecord record) -> async::Task<void> {
    if (record.door != run::CallDoor::kSocket) co_return;
    std::string run = run_id();
    co_await options_.on_call(std::move(run), std::move(record));
  });
  // Of refused calls a bounded number of each run is recorded.
  calls_.SetRecorder([this, run_id](const run::HostCallRecord& record) {
    const bool refused = record.door == run::CallDoor::kSocket && record.outcome == "refused";
    if (refused) runs_.Add(options_.on_call(run_id(), record));
  });
}

async::Task<Result<std::unique_ptr<Session>>> Session::Open(async::Loop& loop, run::Executor& executor,
                                                            SessionOptions options, const RunSpec* only,
                                                            run::StopToken stop) {
  options.guest.spaces.clear();
  for (const auto& [space, handler] : options.spaces) options.guest.spaces.push_back(space);
  auto guest = co_await executor.Open(options.guest, only, stop);
  if (!guest) co_return std::unexpected(std::move(guest.error()));
  // Then the capability `calls` is missing. Packages are added from outside as well.
  if ((*guest)->call_socket() == nullptr) {
    const bool takes_packages = (*guest)->packages() != nullptr;
    std::erase_if(options.spaces,
                  [&](const auto& space) { return !takes_packages || space.first != run::kPackagesSpace; });
  }
  std::unique_ptr<Session> session(new Session(loop, std::move(options), std::move(*guest), only != nullptr));
  // Here, so that a session that was opened needs no more descriptors for its runs.
  auto door = co_await session->MakeDoor();
  if (!door) {
    co_await session->Close();
    co_return std::unexpected(std::move(door.error()));
  }
  // The one run has limits of its own.
  if (only == nullptr) session->timers_.Add(session->Expire());
  co_return std::move(session);
}

std::vector<std::string_view> Session::Capabilities(std::string_view language) const {
  return run::Capabilities(*guest_, language);
}

async::Task<run::GuestUsage> Session::MeasureUsage() {
  if (guest_closed_ || closing_) co_return run::GuestUsage{};
  auto usage = co_await guest_->MeasureUsage();
  co_return usage;
}

Result<std::shared_ptr<Run>> Session::Submit(RunSpec spec, run::EventSink* sink) {
  OutputShape shape;
  shape.cap = options_.guest.policy.limits.output.value;
  return Submit(std::move(spec), sink, std::move(shape));
}

Result<std::shared_ptr<Run>> Session::Submit(RunSpec spec, run::EventSink* sink, OutputShape shape) {
  if (closing_) return Err(ErrorCode::kClosed, "the session has ended: {}", closed_because_);
  if (turn_.waiting() >= options_.queue) {
    return Err(ErrorCode::kExhausted, "{} runs wait already: try again later", options_.queue);
  }
  if (spec.blocks.empty()) return Err(ErrorCode::kInvalid, "a run needs code");
  TRY_VOID(CheckVariables(spec.variables));
  if (spec.id.empty()) spec.id = NewRunId();
  auto run = std::make_shared<Run>(loop_, std::move(spec));
  std::erase_if(queued_, [](const std::weak_ptr<Run>& each) { return each.expired(); });
  queued_.push_back(run);
  shape.holds_started = alone_;
  runs_.Add(Execute(run, sink, std::move(shape)));
  return run;
}

async::Task<Result<RunResult>> Session::RunToEnd(RunSpec spec, run::EventSink* sink) {
  auto run = Submit(std::move(spec), sink);
  if (!run) co_return std::unexpected(std::move(run.error()));
  (void)co_await (*run)->Ended();
  co_return (*run)->result();
}

// Stopped while it waited: nothing ran.
RunResult Session::Cancelled(const Run& run) const {
  RunResult result;
  result.id = run.id();
  result.session = alone_ ? "" : id_;
  run::RunFacts facts;
  facts.stop = StopReason::kCancel;
  facts.wait_status = 0;
  result.outcome = run::Judge(facts, options_.guest.policy.limits);
  result.state = run::TraitsOf(*guest_, run.spec_.as, "").state ? StateAfter::kKept : StateAfter::kNone;
  return result;
}

void Session::EndRun(const std::shared_ptr<Run>& run) {
  run->driver_ = nullptr;
  run->stop_.Close();
  if (current_ == run) current_.reset();
  run->ended_.Set();
}

async::Task<void> Session::Execute(std::shared_ptr<Run> run, run::EventSink* sink, OutputShape shape) {
  auto pass = co_await turn_.EnterOr(run->stop_.token().Ending());
  if (!pass || run->stop_.token().ending()) {
    run->result_ = Cancelled(*run);
    if (sink != nullptr) {
      Event last = FinishedEvent{run->result_.outcome, run->result_.state};
      (void)co_await sink->Emit(std::move(last));
    }
    EndRun(run);
    co_return;
  }
  current_ = run;
  auto ran = co_await async::Caught(RunInTurn(*run, sink, std::move(shape)));
  if (!ran) {
    // An exception ends its run, and nothing else. What it left of the guest is unknown.
    run->result_ = Cancelled(*run);
    run->result_.outcome = Rejected(Error(ran.error()).WithContext("the run could not go on"));
    run->result_.state = guest_->traits("").state ? StateAfter::kLost : StateAfter::kNone;
    Stop("a run could not go on: " + ran.error().message);
  }
  EndRun(run);
  Touch();
}

// No code of the guest has run yet.
async::Task<Status> Session::MakeDoor() {
  if (options_.spaces.empty() || guest_->call_socket() == nullptr) co_return Status{};
  auto listener = co_await guest_->call_socket()->Listen();
  if (!listener) co_return std::unexpected(std::move(listener.error()));
  const size_t at_once = options_.guest.policy.limits.calls_at_once.value;
  door_.emplace(loop_, calls_, std::move(*listener), std::max(2 * at_once, calls::Door::kMostConnections));
  co_return Status{};
}

async::Task<void> Session::RunInTurn(Run& run, run::EventSink* sink, OutputShape shape) {
  RunOutput output(run.id(), sink, std::move(shape));
  Event started = StartedEvent{guest_->LanguageOf(run.spec_, run.spec_.blocks.front()), guest_->isolation()};
  (void)co_await output.Emit(std::move(started));
  calls_.BeginRun();
  calls_.Route(run::CallDoor::kRunner, "input", run.input_);
  run::RunDriver driver(loop_, *guest_, run.stop_, calls_, output);
  run.driver_ = &driver;
  if (door_) door_->Open();
  run::BlockEnd end = co_await RunBlocks(run, driver);
  if (door_) co_await door_->Close();
  run.stop_.CloseToInterrupts();
  co_await output.Flush();
  Event last = FinishedEvent{std::move(end.outcome), end.state.state, std::move(end.state.checkpoint)};
  (void)co_await output.Emit(std::move(last));
  run.result_ = output.Take();
  if (!alone_) run.result_.session = id_;
  run.driver_ = nullptr;
}

async::Task<Result<run::BlockEnd>> Session::RunBlock(Run& run, run::RunDriver& driver, size_t index,
                                                     async::TimePoint start) {
  const Limits& limits = options_.guest.policy.limits;
  const bool first = index == 0;
  const std::string& language = run.spec_.blocks[index].language;
  if (first && !run.spec_.variables.empty() && (run.spec_.as == RunAs::kProgram || !guest_->takes_values(language))) {
    co_return Err(ErrorCode::kUnsupported, "variables: code of '{}' in the {} executor takes none: write a file",
                  guest_->LanguageOf(run.spec_, run.spec_.blocks[index]), guest_->isolation().executor);
  }
  // All blocks together have the time of one run.
  const auto used = first ? std::chrono::nanoseconds(0) : async::Clock::now() - start;
  const auto timeout = run.spec_.timeout.value_or(limits.timeout.value);
  run::BlockTurn turn{run.spec_, run.spec_.blocks[index], ++blocks_, limits};
  turn.limits.timeout.value = timeout;
  if (!limits.cpu_time.asked) {
    turn.limits.cpu_time.value =
        std::max(limits.cpu_time.value, std::min(CpuTimeOf(turn.limits), options_.max_cpu_time));
  }
  turn.limits.timeout.value = std::max<std::chrono::nanoseconds>(timeout - used, kLeastTime);
  if (first) turn.stdin_text = std::move(run.spec_.stdin_text);
  turn.first = first;
  turn.last = index + 1 == run.spec_.blocks.size();
  turn.calls = std::ranges::any_of(options_.spaces, [](const auto& space) { return space.second->HasOperations(); });
  auto end = co_await driver.Drive(turn);
  co_return end;
}

async::Task<run::BlockEnd> Session::RunBlocks(Run& run, run::RunDriver& driver) {
  const async::TimePoint start = async::Clock::now();
  run::BlockEnd whole;
  Usage used;
  for (size_t i = 0; i < run.spec_.blocks.size(); ++i) {
    const bool keeps_state = run::TraitsOf(*guest_, run.spec_.as, run.spec_.blocks[i].language).state;
    if (run.stop_.reason()) {
      // A program that is interrupted is cancelled, also before it has begun.
      const bool cancelled = !keeps_state || run::EndsRun(*run.stop_.reason());
      whole.outcome.status = cancelled ? RunStatus::kCancelled : RunStatus::kError;
      whole.outcome.exit_code = cancelled ? kExitCancelled : kExitInterrupted;
      if (!cancelled) whole.outcome.error = RunError{"KeyboardInterrupt", "interrupted", ""};
      if (i == 0) whole.state.state = keeps_state ? StateAfter::kKept : StateAfter::kNone;
      break;
    }
    auto end = co_await RunBlock(run, driver, i, start);
    if (end) {
      whole = std::move(*end);
    } else {
      // Nothing ran, so nothing changed; unless the guest is gone.
      const bool lost = end.error().code == ErrorCode::kClosed;
      whole = run::BlockEnd{};
      whole.outcome = Rejected(end.error());
      whole.state.state = !keeps_state ? StateAfter::kNone : lost ? StateAfter::kLost : StateAfter::kKept;
    }
    used.wall_ms += whole.outcome.usage.wall_ms;
    used.cpu_ms += whole.outcome.usage.cpu_ms;
    used.peak_memory = std::max(used.peak_memory, whole.outcome.usage.peak_memory);
    if (whole.outcome.status != RunStatus::kOk) break;
  }
  whole.outcome.usage = used;
  co_return whole;
}

void Session::Stop(std::string because) {
  if (std::exchange(closing_, true)) return;
  closed_because_ = std::move(because);
  closing_event_.Set();
  // Ending a run may change the list.
  for (auto runs = queued_; const std::weak_ptr<Run>& each : runs) {
    if (auto run = each.lock()) (void)run->Stop(StopReason::kClosing, closed_because_);
  }
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

async::Task<Status> Session::InTurn(std::function<async::Task<Status>()> work) {
  auto pass = co_await Enter();
  if (!pass) co_return std::unexpected(std::move(pass.error()));
  auto done = co_await work();
  Touch();
  co_return done;
}

async::Task<Result<std::string>> Session::Ask(std::string language, CodeQuestion question, std::string code,
                                              size_t cursor) {
  if (guest_->assistant() == nullptr) co_return std::unexpected(NotSupported("completion", isolation()));
  auto pass = co_await Enter();
  if (!pass) co_return std::unexpected(std::move(pass.error()));
  auto answer = co_await guest_->assistant()->Ask(language, question, std::move(code), cursor);
  Touch();
  co_return answer;
}

async::Task<Status> Session::Reset() {
  // Without state there is nothing to forget.
  if (guest_->resettable() == nullptr) co_return Status{};
  auto reset = co_await InTurn([this] { return guest_->resettable()->Reset(); });
  co_return reset;
}

async::Task<Result<std::string>> Session::UsePackages(std::string directory) {
  if (guest_->packages() == nullptr) co_return std::unexpected(NotSupported("deps", isolation()));
  auto used = co_await guest_->packages()->Use(std::move(directory));
  co_return used;
}

async::Task<Result<run::GuestPython>> Session::DescribePython() {
  run::Packages* packages = guest_->packages();
  if (packages == nullptr) co_return std::unexpected(NotSupported("deps", isolation()));
  if (!packages->python()) {
    auto pass = co_await Enter();
    if (!pass) co_return std::unexpected(std::move(pass.error()));
    if (!packages->python()) co_await packages->AskPython({});
  }
  auto python = packages->python();
  if (!python) co_return Err(ErrorCode::kInternal, "the session's interpreter was not asked");
  co_return std::move(*python);
}

async::Task<Status> Session::SaveCheckpoint(std::string name) {
  if (guest_->checkpoints() == nullptr) co_return std::unexpected(NotSupported("checkpoints", isolation()));
  auto saved = co_await InTurn([this, &name] { return guest_->checkpoints()->Save(name); });
  co_return saved;
}

async::Task<Status> Session::Rollback(std::string name) {
  if (guest_->checkpoints() == nullptr) co_return std::unexpected(NotSupported("checkpoints", isolation()));
  auto done = co_await InTurn([this, &name] { return guest_->checkpoints()->Rollback(name); });
  co_return done;
}

async::Task<Status> Session::DropCheckpoint(std::string name) {
  if (guest_->checkpoints() == nullptr) co_return std::unexpected(NotSupported("checkpoints", isolation()));
  auto dropped =
      co_await InTurn([this, &name]() -> async::Task<Status> { co_return guest_->checkpoints()->Drop(name); });
  co_return dropped;
}

std::vector<std::string> Session::Checkpoints() const {
  return guest_->checkpoints() == nullptr ? std::vector<std::string>{} : guest_->checkpoints()->List();
}

async::Task<void> Session::Expire() {
  for (;;) {
    const async::TimePoint end_of_life = opened_ + options_.guest.max_lifetime;
    const async::TimePoint end_of_idling = idle_since_ + options_.guest.idle_timeout;
    const async::TimePoint now = async::Clock::now();
    if (now >= end_of_life) {
      Stop(fmt::format("it lived for {}", FormatDuration(options_.guest.max_lifetime)));
      break;
    }
    if (!is_busy() && now >= end_of_idling) {
      Stop(fmt::format("it was idle for {}", FormatDuration(options_.guest.idle_timeout)));
      break;
    }
    // While a run is on, the idle time has not begun: look again when it may have passed.
    async::TimePoint next = is_busy() ? now + options_.guest.idle_timeout : end_of_idling;
    bool slept = co_await async::SleepUntil(std::min(next, end_of_life));
    if (!slept) co_return;
  }
  auto pass = co_await turn_.Enter();
  if (!std::exchange(guest_closed_, true)) co_await guest_->Close();
}

async::Task<void> Session::Close() {
  Stop("it was closed");
  {
    auto pass = co_await turn_.Enter();
    if (!std::exchange(guest_closed_, true)) (void)co_await async::Caught(guest_->Close());
  }
  if (door_) (void)co_await async::Caught(door_->Stop());
  (void)co_await async::Caught(runs_.Join());
  timers_.Cancel();
  (void)co_await async::Caught(timers_.Join());
}

}  // namespace cella::session
