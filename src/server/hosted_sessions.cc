#include "server/hosted_sessions.h"

#include "async/caught.h"

#include <nlohmann/json.hpp>

#include "base/scope_exit.h"
#include "engine/engine.h"
#include "policy/keys.h"
#include "registry/registry.h"
#include "server/answer.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/run_record.h"
#include "server/session_environment.h"
#include "server/storage_of_session.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;

std::string LabelsOf(const SessionSpec& spec) {
  nlohmann::ordered_json labels = nlohmann::ordered_json::object();
  for (const auto& [key, value] : spec.labels) labels[key] = value;
  return ToText(labels);
}

}  // namespace

async::Task<Answer<std::shared_ptr<HostedSession>>> HostedSessions::Open(Hub& hub, SessionSpec spec,
                                                                         const std::string& owner) {
  if (closing_ || hub.draining) co_return std::unexpected(Draining());
  if (sessions_.size() + opening_ >= hub.config.sessions.max_sessions) {
    co_return TooMany(fmt::format("this server keeps {} sessions at most", hub.config.sessions.max_sessions), 5s);
  }
  auto share = hub.quota.TakeSession(owner, spec.policy.limits.memory.value);
  if (!share) co_return std::unexpected(std::move(share.error()));
  engine::Engine* engine = hub.engines.Find(spec.executor);
  if (engine == nullptr) co_return Forbidden(fmt::format("executor: '{}' is not allowed", ToString(spec.executor)));
  ++opening_;
  ScopeExit opened([this] { --opening_; });
  auto lease = co_await PrepareEnvironment(hub, owner, &spec);
  if (!lease) co_return std::unexpected(std::move(lease.error()));
  if (closing_ || hub.draining) co_return std::unexpected(Draining());
  const async::TimePoint start = async::Clock::now();

  auto storage = co_await OpenStorage(hub, spec);
  if (!storage) co_return std::unexpected(std::move(storage.error()));
  spec.deps.insert(spec.deps.end(), storage->requirements.begin(), storage->requirements.end());

  session::SessionOptions options;
  options.guest = spec;
  options.guest.tenant = TenantOf(hub, owner, spec);
  auto packages = std::make_shared<installer::SessionPackages>(hub.packages, spec.policy, spec.deps, spec.runtime_deps,
                                                               BuildPermitFor(hub, owner));
  if (policy::TakesPackages(spec)) options.spaces[run::kPackagesSpace] = packages;
  // The session drops the namespaces of a guest that cannot call.
  auto tools = std::make_shared<SessionTools>(hub.loop, hub.work);
  options.spaces[SessionTools::kSpace] = tools;
  if (storage->session) storage::AddSpaces(storage->session, &options.spaces);
  options.queue = hub.config.sessions.max_queued_runs + 1;
  options.max_cpu_time = hub.config.maxima.policy.limits.cpu_time.value;
  // The id of the session is made when it opens, and no call comes before.
  auto id = std::make_shared<std::string>();
  options.on_call = [&hub, owner, id](std::string run, run::HostCallRecord call) {
    return RecordCall(hub, owner, *id, std::move(run), std::move(call));
  };
  auto session = co_await session::Session::Open(hub.loop, *engine->executor, std::move(options));
  if (!session) co_return Refused(session.error());
  *id = (*session)->id();
  hub.metrics.SessionOpened(spec.executor, async::Clock::now() - start);

  registry::NewSession row;
  row.id = (*session)->id();
  row.owner = owner;
  row.name = spec.name;
  row.labels = LabelsOf(spec);
  row.executor = ToString(spec.executor);
  SessionParts parts{.spec = std::move(spec),
                     .owner = owner,
                     .share = std::move(*share),
                     .session = std::move(*session),
                     .packages = std::move(packages),
                     .tools = std::move(tools),
                     .environment = std::move(*lease),
                     .storage = std::move(storage->session)};
  auto hosted = std::make_shared<HostedSession>(hub, std::move(parts));
  auto stored = co_await hub.registry.SessionOpened(std::move(row));
  if (!stored || closing_) {
    hosted->Stop("it could not be kept");
    co_await hosted->Finish();
    if (!stored) co_return Refused(stored.error());
    co_return std::unexpected(Draining());
  }
  sessions_[hosted->id()] = hosted;
  tending_.Add(Tend(hub, hosted));
  const std::chrono::duration<double, std::milli> took = async::Clock::now() - start;
  hub.log.Write(LogLevel::kInfo, "session.opened", "session opened",
                {{"session", hosted->id()},
                 {"client", owner},
                 {"executor", ToString(hosted->spec().executor)},
                 {"took_ms", took.count()}});
  registry::AuditEntry entry;
  entry.who = owner;
  entry.action = "session.open";
  entry.session = hosted->id();
  (void)co_await hub.registry.Audit(std::move(entry), registry::Until::kQueued);
  co_return hosted;
}

async::Task<void> HostedSessions::Tend(Hub& hub, std::shared_ptr<HostedSession> session) {
  (void)co_await session->Stopping();
  co_await session->Finish();
  hub.log.Write(
      LogLevel::kInfo, "session.ended", "session ended",
      {{"session", session->id()}, {"client", session->owner()}, {"because", session->engine().closed_because()}});
  sessions_.erase(session->id());
  session->MarkGone();
}

Answer<std::shared_ptr<HostedSession>> HostedSessions::Find(std::string_view id, std::string_view owner) const {
  auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->owner() != owner) return NotFound("there is no such session");
  return found->second;
}

std::vector<std::shared_ptr<HostedSession>> HostedSessions::All() const {
  std::vector<std::shared_ptr<HostedSession>> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  return all;
}

void HostedSessions::Retire(std::unique_ptr<session::Session> session, Quota::Share share) {
  auto close = [](std::unique_ptr<session::Session> alone, Quota::Share) -> async::Task<void> {
    co_await alone->Close();
  };
  tending_.Add(close(std::move(session), std::move(share)));
}

async::Task<void> HostedSessions::Close(std::string because) {
  closing_ = true;
  for (const auto& session : All()) session->Stop(because);
  (void)co_await async::Caught(tending_.Join());
}

}  // namespace cella::server
