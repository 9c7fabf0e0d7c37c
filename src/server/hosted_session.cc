#include "server/hosted_session.h"

#include <fmt/chrono.h>

#include <nlohmann/json.hpp>

#include "server/answer.h"
#include "server/run_record.h"
#include "session/fold.h"
#include "session/json.h"
#include "session/rejected.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

// Ended runs that are kept at hand; their events and results are small.
constexpr size_t kRunsAtHand = 32;
// A run that is shorter than this tells the registry of its end only.
constexpr auto kNewsEvery = 200ms;

std::string At(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%FT%TZ}", std::chrono::floor<std::chrono::milliseconds>(time));
}

}  // namespace

HostedSession::HostedSession(Hub& hub, SessionSpec spec, std::string owner, Quota::Share share,
                             std::unique_ptr<session::Session> session)
    : hub_(hub),
      spec_(std::move(spec)),
      owner_(std::move(owner)),
      share_(std::move(share)),
      session_(std::move(session)),
      tasks_(hub.loop),
      gone_(hub.loop) {}

std::string_view HostedSession::status() const {
  if (lost_) return "lost";
  if (!session_->is_open()) return "closed";
  return session_->is_busy() ? "running" : "idle";
}

Json HostedSession::Describe() const {
  Json labels = Json::object();
  for (const auto& [key, value] : spec_.labels) labels[key] = value;
  const bool stateful = spec_.executor == ExecutorKind::kSandbox;
  Json json;
  json["id"] = id();
  json["name"] = spec_.name.empty() ? Json(nullptr) : Json(spec_.name);
  json["labels"] = std::move(labels);
  json["executor"] = ToString(spec_.executor);
  json["status"] = status();
  json["capabilities"] =
      stateful ? Json{"state", "checkpoints", "input", "display", "completion", "files", "interrupt"} : Json{"files"};
  json["created_at"] = At(created_);
  json["expires_at"] = At(created_ + std::chrono::duration_cast<std::chrono::seconds>(spec_.max_lifetime));
  json["isolation"] = Json::parse(session::ToJson(session_->isolation()));
  return json;
}

std::shared_ptr<HostedRun> HostedSession::FindRun(std::string_view id) const {
  auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second;
}

// The oldest that have ended; the registry has them.
void HostedSession::Forget() {
  while (order_.size() > kRunsAtHand) {
    auto oldest = runs_.find(order_.front());
    if (oldest != runs_.end() && oldest->second->phase() != HostedRun::Phase::kEnded) return;
    if (oldest != runs_.end()) {
      oldest->second->Discard();
      runs_.erase(oldest);
    }
    order_.pop_front();
  }
}

async::Task<Answer<std::shared_ptr<HostedRun>>> HostedSession::Start(RunWish wish) {
  if (!session_->is_open()) {
    co_return SessionEnded(session_->closed_because());
  }
  if (hub_.draining) co_return std::unexpected(Draining());
  if (wish.idempotency_key) {
    // Asking again costs nothing.
    auto earlier = co_await FindRepeated(wish);
    if (!earlier || *earlier) co_return earlier;
  }
  if (session_->waiting() >= hub_.config.sessions.max_queued_runs) {
    co_return TooMany(fmt::format("{} runs of this session wait already", session_->waiting()), 1s);
  }
  auto share = hub_.quota.TakeRun(owner_);
  if (!share) co_return std::unexpected(std::move(share.error()));
  session::NewRun row;
  row.id = session::NewRunId();
  row.session = id();
  row.owner = owner_;
  row.language = wish.blocks.front().language;
  for (const language::Block& block : wish.blocks) row.code_bytes += block.code.size();
  const std::string hash = CodeHash(wish.blocks);
  row.code_sha256 = hash;
  row.idempotency_key = wish.idempotency_key;
  const std::string base = hub_.RunsDirectory() + "/" + row.id;
  session::EventLogLimits limits;
  limits.file = hub_.config.retention.event_log_bytes;
  auto run = std::make_shared<HostedRun>(hub_.loop, row.id, owner_,
                                         RunPaths{base + ".events", base + ".stdout", base + ".stderr"}, limits);
  if (wish.idempotency_key || hub_.registry.health().last_error) {
    // It may be somebody else's who was quicker, or the registry may refuse it again: then nothing may run.
    auto accepted = co_await hub_.registry.RunAccepted(std::move(row));
    if (!accepted) co_return Refused(accepted.error());
    if (accepted->as != session::Accepted::As::kNew) co_return co_await FindRepeated(wish);
    if (!session_->is_open()) {
      (void)co_await hub_.registry.RunEnded(Cancelled(run->id()), session::Until::kQueued);
      co_return SessionEnded(session_->closed_because());
    }
    Begin(run, std::move(wish), std::move(*share), hash);
    Announce(run);
    co_return run;
  }
  // It runs while the registry writes it down: nobody hears of it before that is done, and what the registry is told
  // of it later is written later.
  Result<session::Accepted> accepted = Err(ErrorCode::kInternal, "the registry did not answer");
  auto write = [](session::Registry& registry, session::NewRun row, auto* answer) -> async::Task<void> {
    *answer = co_await registry.RunAccepted(std::move(row));
  };
  async::TaskGroup writing(hub_.loop);
  writing.Add(write(hub_.registry, std::move(row), &accepted));
  Begin(run, std::move(wish), std::move(*share), hash);
  co_await writing.Join();
  if (!accepted) {
    Cancel(*run);
    co_return std::unexpected(ApiError{500, "not_recorded",
                                       "the run could not be written down: " + accepted.error().message,
                                       "it may have begun, and was cancelled", std::nullopt});
  }
  Announce(run);
  co_return run;
}

void HostedSession::Begin(const std::shared_ptr<HostedRun>& run, RunWish wish, Quota::Share share,
                          std::string code_sha256) {
  runs_[run->id()] = run;
  order_.push_back(run->id());
  hub_.metrics.RunAccepted();
  tasks_.Add(Execute(run, std::move(wish), std::move(share), std::move(code_sha256)));
}

void HostedSession::Announce(const std::shared_ptr<HostedRun>& run) {
  // One of them may leave while it is told.
  for (auto listeners = listeners_; const auto& [key, listener] : listeners) listener(run);
}

// The run that has the wish's key; nothing: there is none. 409: it is a run of other code.
async::Task<Answer<std::shared_ptr<HostedRun>>> HostedSession::FindRepeated(const RunWish& wish) {
  auto record = co_await hub_.registry.FindByIdempotencyKey(id(), *wish.idempotency_key);
  if (!record) co_return Refused(record.error());
  if (!*record) co_return nullptr;
  if ((*record)->code_sha256 != CodeHash(wish.blocks)) {
    co_return Conflict("this idempotency key belongs to a run of other code: " + (*record)->id);
  }
  if (auto earlier = FindRun((*record)->id)) co_return earlier;
  // Long over: whoever asks gets what the registry has.
  auto whole = co_await hub_.registry.FindRun((*record)->id);
  if (!whole) co_return Refused(whole.error());
  if (!*whole || (*whole)->result.empty()) co_return Conflict("that run was lost: " + (*record)->id);
  auto run = std::make_shared<HostedRun>(hub_.loop, (*record)->id, owner_, RunPaths{}, session::EventLogLimits{});
  run->FinishAsStored((*whole)->result);
  co_return run;
}

async::Task<void> HostedSession::TellRegistry(HostedRun& run) {
  while (run.phase() != HostedRun::Phase::kEnded) {
    bool slept = co_await async::SleepUntil(async::Clock::now() + kNewsEvery);
    if (!slept) co_return;
    auto news = run.TakeNews();
    if (!news.empty()) {
      (void)co_await hub_.registry.AppendEvents(run.id(), std::move(news), session::Until::kQueued);
    }
  }
}

async::Task<void> HostedSession::Execute(std::shared_ptr<HostedRun> run, RunWish wish, Quota::Share share,
                                         std::string code_sha256) {
  const async::TimePoint accepted = async::Clock::now();
  session::RunInput input;
  input.id = run->id();
  input.blocks = std::move(wish.blocks);
  input.timeout = wish.timeout;
  input.stdin_text = std::move(wish.stdin_text);
  input.answers_input = wish.answers_input;
  input.on_output = [run](Stream stream, std::string_view bytes) { run->Keep(stream, bytes); };
  input.on_turn = [this, run] {
    running_ = run.get();
    if (run->cancel_wanted) session_->Cancel();
  };
  async::TaskGroup telling(hub_.loop);
  telling.Add(TellRegistry(*run));
  auto result = co_await session_->Run(std::move(input), run.get());
  running_ = nullptr;
  telling.Cancel();
  if (!result) {
    RunResult refused;
    refused.id = run->id();
    refused.session = id();
    refused.outcome = session::Rejected(result.error());
    if (run->cancel_wanted || !session_->is_open()) {
      refused.outcome.status = RunStatus::kCancelled;
      refused.outcome.exit_code = kExitCancelled;
    }
    refused.state = StateAfter::kKept;
    result = std::move(refused);
  }
  if (result->state == StateAfter::kLost && result->outcome.status == RunStatus::kRejected) lost_ = true;
  if (run->phase() != HostedRun::Phase::kEnded) run->Finish(*result);
  hub_.metrics.RunEnded(result->outcome.status, async::Clock::now() - accepted);
  share.GiveBack();
  co_await telling.Join();
  co_await RecordRun(hub_, "run", owner_, *result, std::move(code_sha256));
  auto stored = co_await hub_.registry.RunEnded(std::move(*result), session::Until::kCommittedSoon);
  run->Settle(stored ? HostedRun::Stored::kYes : HostedRun::Stored::kNo);
  Forget();
}

uint64_t HostedSession::Listen(Listener listener) {
  listeners_.emplace(++last_listener_, std::move(listener));
  return last_listener_;
}

RunResult HostedSession::Cancelled(const std::string& run) const {
  RunResult result;
  result.id = run;
  result.session = id();
  result.outcome.status = RunStatus::kCancelled;
  result.outcome.exit_code = kExitCancelled;
  result.state = StateAfter::kKept;
  return result;
}

bool HostedSession::Cancel(HostedRun& run) {
  if (run.phase() == HostedRun::Phase::kEnded) return false;
  run.cancel_wanted = true;
  if (running_ == &run) {
    session_->Cancel();
  } else {
    // It waits, and whoever waits for it need not: its turn will pass without a trace.
    run.Finish(Cancelled(run.id()));
  }
  return true;
}

void HostedSession::Stop(std::string because) { session_->Stop(std::move(because)); }

async::Task<void> HostedSession::Finish() {
  co_await session_->Close();
  hub_.registry.Hasten();  // our last runs wait there for company
  co_await tasks_.Join();
  for (const auto& [id, run] : runs_) run->Discard();
  const auto status = lost_ ? session::SessionStatus::kLost : session::SessionStatus::kClosed;
  ended_ = co_await hub_.registry.SessionEnded(id(), status, session_->closed_because());
  share_.GiveBack();
}

}  // namespace cella::server
