// The packages of a session: what it was given besides its Python's own.
#include <deque>
#include <nlohmann/json.hpp>

#include "async/task_group.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "server/run_stream.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxBody = uint64_t{1} << 20;

std::unexpected<ApiError> Locked() {
  return std::unexpected(ApiError{403, "deps_disabled", "this session's packages are locked",
                                  "the operator permits changes with allow.runtime_deps, and the caller with "
                                  "allow_runtime_deps",
                                  std::nullopt});
}

// Like other errors, with a code that names the subject.
ApiError Failed(const Error& error) {
  ApiError failed = ToApiError(error);
  failed.code = "deps_failed";
  if (error.code == ErrorCode::kUnsupported) failed.status = 502;
  return failed;
}

Json ToJson(const std::vector<environment::Package>& packages) {
  Json list = Json::array();
  for (const auto& package : packages) list.push_back({{"name", package.name}, {"version", package.version}});
  return list;
}

Json ToJson(const installer::DepsChange& change) {
  return {{"added", ToJson(change.added)}, {"removed", change.removed}, {"needs_restart", change.needs_restart}};
}

async::Task<Answer<std::shared_ptr<HostedSession>>> Find(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return std::unexpected(std::move(session.error()));
  if (!(*session)->engine().is_open()) co_return SessionEnded((*session)->engine().closed_because());
  co_return *session;
}

async::Task<void> ListDeps(Hub& hub, Call& call) {
  auto session = co_await Find(hub, call);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  Json json = {{"deps", Json::array()}, {"installed", Json::array()}};
  json["directory"] = nullptr;
  if (const installer::SessionLayer* layer = (*session)->packages().layer()) {
    json["deps"] = layer->List();
    json["installed"] = ToJson(layer->installed());
    if (!layer->shown().empty()) json["directory"] = layer->shown();
  }
  co_await AnswerJson(call.exchange, 200, json);
}

// The session, unlocked and with a place for packages; or an answer that was sent.
async::Task<std::shared_ptr<HostedSession>> Unlock(Hub& hub, Call& call, bool configured) {
  auto session = co_await Find(hub, call);
  if (session && !configured && !(*session)->packages().allows_changes()) session = Locked();
  if (!session) {
    co_await Refuse(call.exchange, std::move(session.error()));
    co_return nullptr;
  }
  auto opened = co_await (*session)->packages().Open();
  if (!opened) {
    co_await Refuse(call.exchange, Failed(opened.error()));
    co_return nullptr;
  }
  co_return *session;
}

// Lines of the installer on their way to a client, at its pace. A client that is slow misses the oldest of them.
class ProgressStream {
 public:
  ProgressStream(async::Loop& loop, http::Exchange& exchange) : exchange_(exchange), writer_(loop) {}

  void Show(std::string_view line) {
    constexpr size_t kMostWaiting = 100;
    if (lines_.size() == kMostWaiting) lines_.pop_front();
    lines_.push_back(ToText({{"type", "progress"}, {"text", line}}) + "\n");
    if (!std::exchange(writing_, true)) writer_.Add(Write());
  }

  async::Task<void> Finish(const Json& last) {
    lines_.push_back(ToText(last) + "\n");
    if (!std::exchange(writing_, true)) writer_.Add(Write());
    co_await writer_.Join();
    if (!gone_) (void)co_await exchange_.End();
  }

 private:
  async::Task<void> Write() {
    while (!gone_ && !lines_.empty()) {
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      auto written = co_await exchange_.Write(line);
      gone_ = !written;
    }
    lines_.clear();
    writing_ = false;
  }

  http::Exchange& exchange_;
  std::deque<std::string> lines_;
  bool writing_ = false;
  bool gone_ = false;
  async::TaskGroup writer_;
};

using ChangeFunction = std::function<async::Task<Result<installer::DepsChange>>(installer::Progress progress)>;

// One answer, or, where the client takes NDJSON, the progress and then a line that has the same.
async::Task<void> AnswerChange(Hub& hub, Call& call, const ChangeFunction& make_change) {
  if (WantedFormat(call.exchange.request()) != StreamFormat::kNdjson) {
    auto change = co_await make_change(nullptr);
    if (!change) co_return co_await Refuse(call.exchange, Failed(change.error()));
    co_return co_await AnswerJson(call.exchange, 200, ToJson(*change));
  }
  auto begun = co_await call.exchange.Begin(200, {{"Content-Type", "application/x-ndjson"}});
  if (!begun) co_return;
  ProgressStream stream(hub.loop, call.exchange);
  auto change = co_await make_change([&](std::string_view line) { stream.Show(line); });
  Json last = {{"type", "finished"}};
  if (change) {
    last.update(ToJson(*change));
  } else {
    const ApiError error = Failed(change.error());
    last["error"] = {{"status", error.status}, {"code", error.code}, {"message", error.message}, {"hint", error.hint}};
  }
  co_await stream.Finish(last);
}

async::Task<void> AddDeps(Hub& hub, Call& call) {
  auto body = co_await ReadJsonBody(hub.work, call.exchange, kMaxBody);
  if (!body) co_return;
  std::vector<std::string> specs;
  auto found = body->find("packages");
  bool sound = body->size() == 1 && found != body->end() && found->is_array();
  if (sound) {
    for (const auto& spec : *found) {
      sound = sound && spec.is_string();
      if (spec.is_string()) specs.push_back(spec.get<std::string>());
    }
  }
  if (!sound) {
    co_return co_await Refuse(call.exchange, Invalid("'packages' is needed: a list of texts as \"numpy>=2\"").error());
  }
  auto session = co_await Unlock(hub, call, false);
  if (!session) co_return;
  installer::SessionPackages& packages = session->packages();
  const auto permit = packages.TakePermit();
  if (!permit) co_return co_await Refuse(call.exchange, Failed(permit.error()));
  const ChangeFunction add = [&](installer::Progress progress) {
    return packages.layer()->Add(std::move(specs), std::move(progress), packages.stop());
  };
  co_await AnswerChange(hub, call, add);
}

async::Task<void> SyncDeps(Hub& hub, Call& call) {
  auto session = co_await Unlock(hub, call, true);
  if (!session) co_return;
  installer::SessionPackages& packages = session->packages();
  const auto permit = packages.TakePermit();
  if (!permit) co_return co_await Refuse(call.exchange, Failed(permit.error()));
  const ChangeFunction sync = [&](installer::Progress progress) {
    return packages.layer()->Sync(std::move(progress), packages.stop());
  };
  co_await AnswerChange(hub, call, sync);
}

async::Task<void> RemoveDep(Hub& hub, Call& call) {
  auto session = co_await Unlock(hub, call, false);
  if (!session) co_return;
  installer::SessionPackages& packages = session->packages();
  const auto permit = packages.TakePermit();
  if (!permit) co_return co_await Refuse(call.exchange, Failed(permit.error()));
  auto removed = co_await packages.layer()->Remove(std::string(call.parameters[1]), nullptr, packages.stop());
  if (!removed) co_return co_await Refuse(call.exchange, Failed(removed.error()));
  co_await AnswerJson(call.exchange, 200, {{"removed", *removed}});
}

}  // namespace

void AddDepsOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/v1/sessions/{id}/deps", "List the packages that the session added", ListDeps);
  add("POST", "/v1/sessions/{id}/deps", "Add packages to the session; they can be imported at once", AddDeps);
  add("POST", "/v1/sessions/{id}/deps/sync", "Install the packages that the session was configured with", SyncDeps);
  add("DELETE", "/v1/sessions/{id}/deps/{name}", "Remove a package that the session added", RemoveDep);
}

}  // namespace cella::server
