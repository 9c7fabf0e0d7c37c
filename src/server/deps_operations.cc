// The packages of a session: what it was given besides its Python's own.
#include <nlohmann/json.hpp>

#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"

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
  if (const installer::SessionLayer* layer = (*session)->packages().layer()) {
    json["deps"] = layer->List();
    json["installed"] = ToJson(layer->installed());
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
  auto change = co_await packages.layer()->Add(std::move(specs), nullptr, packages.stop());
  if (!change) co_return co_await Refuse(call.exchange, Failed(change.error()));
  co_await AnswerJson(call.exchange, 200, ToJson(*change));
}

async::Task<void> SyncDeps(Hub& hub, Call& call) {
  auto session = co_await Unlock(hub, call, true);
  if (!session) co_return;
  installer::SessionPackages& packages = session->packages();
  const auto permit = packages.TakePermit();
  if (!permit) co_return co_await Refuse(call.exchange, Failed(permit.error()));
  auto change = co_await packages.layer()->Sync(nullptr, packages.stop());
  if (!change) co_return co_await Refuse(call.exchange, Failed(change.error()));
  co_await AnswerJson(call.exchange, 200, ToJson(*change));
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
