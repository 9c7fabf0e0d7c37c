#include "server/run_service.h"

#include <fmt/format.h>

#include "async/caught.h"
#include "async/task_group.h"
#include "base/cpu_time.h"
#include "base/scope_exit.h"
#include "engine/engine.h"
#include "registry/registry.h"
#include "server/answer.h"
#include "server/hosted_session.h"
#include "server/hosted_sessions.h"
#include "server/metrics.h"
#include "server/quota.h"
#include "server/run_record.h"
#include "server/session_environment.h"
#include "server/storage_of_session.h"
#include "session/fold.h"
#include "session/rejected.h"
#include "session/session.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;

// A run that is shorter than this is told to the registry at its end only.
constexpr auto kNewsEvery = 200ms;

registry::NewRun RowOf(const RunSpec& run, std::string session, std::string owner, std::string hash,
                       const Delivery& delivery) {
  registry::NewRun row;
  row.id = run.id;
  row.session = std::move(session);
  row.owner = std::move(owner);
  row.language = run.blocks.front().language;
  for (const Block& block : run.blocks) row.code_bytes += block.code.size();
  row.code_sha256 = std::move(hash);
  row.idempotency_key = delivery.idempotency_key;
  return row;
}

ApiError NotRecorded(const Error& error) {
  return {500, "not_recorded", "the run could not be written down: " + error.message,
          "it may have begun, and was cancelled", std::nullopt};
}

async::Task<void> WriteRow(registry::Registry& registry, registry::NewRun row, Result<registry::Accepted>* answer) {
  *answer = co_await registry.RunAccepted(std::move(row));
}

// The run that has the key; null: there is none. 409: it is a run of other code.
async::Task<Answer<std::shared_ptr<HostedRun>>> FindRepeated(Hub& hub, HostedSession& session, std::string hash,
                                                             std::string key) {
  auto record = co_await hub.registry.FindByIdempotencyKey(session.id(), key);
  if (!record) co_return Refused(record.error());
  if (!*record) co_return nullptr;
  if ((*record)->code_sha256 != hash) {
    co_return Conflict("this idempotency key belongs to a run of other code: " + (*record)->id);
  }
  if (auto earlier = session.FindRun((*record)->id)) co_return earlier;
  // The run is over since long: the registry has its result.
  auto whole = co_await hub.registry.FindRun((*record)->id);
  if (!whole) co_return Refused(whole.error());
  if (!*whole || (*whole)->result.empty()) co_return Conflict("that run was lost: " + (*record)->id);
  auto run = std::make_shared<HostedRun>(hub.loop, hub.work, (*record)->id, session.owner(), RunPaths{},
                                         registry::EventLogLimits{});
  run->FinishAsStored((*whole)->result);
  co_return run;
}

async::Task<void> SendNews(Hub& hub, HostedRun& run) {
  while (run.phase() != HostedRun::Phase::kEnded) {
    bool slept = co_await async::SleepUntil(async::Clock::now() + kNewsEvery);
    if (!slept) co_return;
    auto news = run.TakeNews();
    if (!news.empty()) {
      (void)co_await hub.registry.AppendEvents(run.id(), std::move(news), registry::Until::kQueued);
    }
  }
}

// What remains to be done once the run's code is over.
async::Task<void> FollowToEnd(Hub& hub, HostedSession& session, std::shared_ptr<HostedRun> run, Quota::Share share,
                              std::string hash) {
  const async::TimePoint accepted = async::Clock::now();
  async::TaskGroup news(hub.loop);
  news.Add(SendNews(hub, *run));
  (void)co_await run->engine()->Ended();
  news.Cancel();
  RunResult result = run->engine()->TakeResult();
  session.NoteEnd(result);
  co_await run->Finish(result);
  hub.metrics.RunEnded(session.spec().executor, result.outcome.status, async::Clock::now() - accepted);
  share.GiveBack();
  (void)co_await async::Caught(news.Join());
  co_await RecordRun(hub, "run", session.owner(), result, std::move(hash));
  auto stored = co_await hub.registry.RunEnded(std::move(result), registry::Until::kCommittedSoon);
  co_await run->KeepResult();
  run->Settle(stored ? HostedRun::Stored::kYes : HostedRun::Stored::kNo);
  hub.sessions.files().Add(run);
  session.ForgetOldRuns();
}

// Queues the run in the engine. From here on it always ends.
Answer<void> Begin(Hub& hub, HostedSession& session, const std::shared_ptr<HostedRun>& run, RunSpec spec,
                   Quota::Share share, std::string hash) {
  session::OutputShape shape;
  shape.cap = session.spec().policy.limits.output.value;
  shape.tap = [run](Stream stream, std::string_view bytes) { run->Keep(stream, bytes); };
  shape.keep = [run](size_t index, MimeBundle bundle) { return run->large().Add(index, std::move(bundle)); };
  auto submitted = session.engine().Submit(std::move(spec), run.get(), std::move(shape));
  if (!submitted) {
    if (submitted.error().code == ErrorCode::kExhausted) return TooMany(submitted.error().message, 1s);
    return SessionEnded(session.engine().closed_because());
  }
  run->Attach(std::move(*submitted));
  session.Keep(run);
  hub.metrics.RunAccepted(session.spec().executor);
  session.tasks().Add(FollowToEnd(hub, session, run, std::move(share), std::move(hash)));
  return {};
}

// Of a run that was written down and could not begin.
RunResult Unbegun(const HostedSession& session, const std::string& id) {
  RunResult result;
  result.id = id;
  result.session = session.id();
  result.outcome.status = RunStatus::kCancelled;
  result.outcome.exit_code = kExitCancelled;
  result.state = StateAfter::kKept;
  return result;
}

}  // namespace

async::Task<Answer<std::shared_ptr<HostedRun>>> StartRun(Hub& hub, HostedSession& session, RunSpec spec,
                                                         Delivery delivery) {
  const std::string hash = co_await HashCode(hub.work, spec.blocks);
  if (!session.engine().is_open()) co_return SessionEnded(session.engine().closed_because());
  if (hub.draining) co_return std::unexpected(Draining());
  if (delivery.idempotency_key) {
    // Asking again costs nothing.
    auto earlier = co_await FindRepeated(hub, session, hash, *delivery.idempotency_key);
    if (!earlier || *earlier) co_return earlier;
  }
  if (session.engine().waiting() >= hub.config.sessions.max_queued_runs) {
    co_return TooMany(fmt::format("{} runs of this session wait already", session.engine().waiting()), 1s);
  }
  auto share = hub.quota.TakeRun(session.owner());
  if (!share) co_return std::unexpected(std::move(share.error()));
  const bool chosen_id = !spec.id.empty();
  if (!chosen_id) spec.id = session::NewRunId();
  registry::NewRun row = RowOf(spec, session.id(), session.owner(), hash, delivery);
  row.chosen_id = chosen_id;
  const std::string base = hub.RunsDirectory() + "/" + row.id;
  registry::EventLogLimits limits;
  limits.file = hub.config.retention.event_log_bytes;
  auto run = std::make_shared<HostedRun>(
      hub.loop, hub.work, row.id, session.owner(),
      RunPaths{base + ".events", base + ".stdout", base + ".stderr", base + ".large"}, limits);
  if (chosen_id || delivery.idempotency_key || hub.registry.health().last_error) {
    // The key or the id may already be taken, or the registry may still be failing: the run must not begin before.
    session.Expect(run);
    // By value: `run` has been moved into the answer when this is called.
    ScopeExit begins([&session, id = run->id(), expected = run.get()] { session.StopExpecting(id, expected); });
    auto accepted = co_await hub.registry.RunAccepted(std::move(row));
    if (!accepted) co_return Refused(accepted.error());
    if (accepted->as == registry::Accepted::As::kTaken) {
      co_return Conflict("this id belongs to an earlier run: " + run->id());
    }
    if (accepted->as != registry::Accepted::As::kNew) {
      co_return co_await FindRepeated(hub, session, hash, *delivery.idempotency_key);
    }
    auto begun = Begin(hub, session, run, std::move(spec), std::move(*share), hash);
    if (!begun) {
      RunResult unbegun = Unbegun(session, run->id());
      co_await run->Finish(unbegun);  // repeated requests may wait for it
      (void)co_await hub.registry.RunEnded(std::move(unbegun), registry::Until::kQueued);
      co_return std::unexpected(std::move(begun.error()));
    }
    session.Announce(run);
    co_return run;
  }
  // The run begins while the registry writes it down. No client learns of it before that is done, and what the registry
  // is told of it later is written later.
  auto begun = Begin(hub, session, run, std::move(spec), std::move(*share), hash);
  if (!begun) co_return std::unexpected(std::move(begun.error()));
  Result<registry::Accepted> accepted = Err(ErrorCode::kInternal, "the registry did not answer");
  async::TaskGroup writing(hub.loop);
  writing.Add(WriteRow(hub.registry, std::move(row), &accepted));
  (void)co_await async::Caught(writing.Join());
  if (!accepted) {
    (void)run->Stop(StopReason::kCancel);
    co_return std::unexpected(NotRecorded(accepted.error()));
  }
  session.Announce(run);
  co_return run;
}

async::Task<Answer<RunResult>> RunAlone(Hub& hub, std::string client, const SessionSpec& spec, RunSpec run,
                                        std::string_view action, run::StopSource& stop) {
  const std::string hash = co_await HashCode(hub.work, run.blocks);
  if (hub.draining) co_return std::unexpected(Draining());
  engine::Engine* engine = hub.engines.Find(spec.executor);
  if (engine == nullptr) co_return Forbidden(fmt::format("executor: '{}' is not allowed", ToString(spec.executor)));
  auto run_share = hub.quota.TakeRun(client);
  if (!run_share) co_return std::unexpected(std::move(run_share.error()));
  auto session_share = hub.quota.TakeSession(client, spec.policy.limits.memory.value);
  if (!session_share) co_return std::unexpected(std::move(session_share.error()));
  auto storage = co_await OpenStorage(hub, spec);
  if (!storage) co_return std::unexpected(std::move(storage.error()));
  run.id = session::NewRunId();
  registry::NewRun row = RowOf(run, "", client, hash, {});
  const std::string id = run.id;
  hub.metrics.RunAccepted(spec.executor);
  const async::TimePoint start = async::Clock::now();
  Result<registry::Accepted> accepted = Err(ErrorCode::kInternal, "the registry did not answer");
  async::TaskGroup writing(hub.loop);
  writing.Add(WriteRow(hub.registry, std::move(row), &accepted));

  session::SessionOptions options;
  options.guest = spec;
  options.guest.tenant = TenantOf(hub, client, spec);
  options.guest.checkpoint = CheckpointMode::kOff;
  if (storage->session) storage::AddSpaces(storage->session, &options.spaces);
  options.max_cpu_time = hub.config.maxima.policy.limits.cpu_time.value;
  // The jail is for this run alone.
  Limits& limits = options.guest.policy.limits;
  if (run.timeout) limits.timeout.value = *run.timeout;
  if (!limits.cpu_time.asked) {
    limits.cpu_time.value = std::max(limits.cpu_time.value, std::min(CpuTimeOf(limits), options.max_cpu_time));
  }
  RunResult result;
  auto session = co_await async::Caught(
      session::Session::Open(hub.loop, *engine->executor, std::move(options), &run, stop.token()));
  if (!session) {
    result.id = id;
    result.outcome = session::Rejected(session.error());
  } else {
    if (storage->session) storage->session->workspace = [&] { return (*session)->workspace(); };
    auto submitted = (*session)->Submit(std::move(run));
    if (submitted) {
      const auto& alone = *submitted;
      auto pass_on = [&] {
        if (stop.reason()) (void)alone->Stop(*stop.reason(), stop.because());
      };
      stop.SetListener(pass_on);
      pass_on();
      (void)co_await alone->Ended();
      stop.SetListener(nullptr);
      result = alone->TakeResult();
    } else {
      result.id = id;
      result.outcome = session::Rejected(submitted.error());
    }
    if (storage->session) storage->session->workspace = nullptr;
    // The answer does not wait for the tear-down.
    hub.sessions.Retire(std::move(*session), std::move(*session_share));
  }
  hub.metrics.RunEnded(spec.executor, result.outcome.status, async::Clock::now() - start);
  (void)co_await async::Caught(writing.Join());
  if (!accepted) co_return std::unexpected(NotRecorded(accepted.error()));
  co_await RecordRun(hub, action, client, result, hash);
  (void)co_await hub.registry.RunEnded(result, registry::Until::kQueued);
  co_return result;
}

}  // namespace cella::server
