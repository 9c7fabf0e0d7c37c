// Python environments of a client, and those that the operator made for all.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "policy/names.h"
#include "policy/read.h"
#include "server/admission.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "server/quota.h"
#include "server/session_environment.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;
using installer::EnvironmentStatus;
using State = EnvironmentStatus::State;

constexpr uint64_t kMaxBody = uint64_t{1} << 20;

std::string_view ToString(State state) {
  switch (state) {
    case State::kBuilding: return "building";
    case State::kReady: return "ready";
    case State::kFailed: return "failed";
  }
  return "failed";
}

size_t SessionsOf(const Hub& hub, const std::string& client, const std::string& key) {
  const auto sessions = hub.sessions.All();
  return static_cast<size_t>(std::ranges::count_if(
      sessions, [&](const auto& each) { return each->owner() == client && each->environment_key() == key; }));
}

Json Describe(const Hub& hub, const std::string& client, const EnvironmentStatus& status) {
  const environment::NamedEnvironment& named = status.named;
  Json json = {{"name", named.name},           {"state", ToString(status.state)},
               {"requested", named.packages},  {"preload", named.preload},
               {"automatic", named.automatic}, {"shared", named.owner != client && !hub.config.allow.whole_machine}};
  if (status.state == State::kBuilding) json["progress"] = status.progress;
  if (status.state == State::kFailed) json["error"] = status.error.message;
  if (status.stored) {
    const environment::Manifest& manifest = status.stored->manifest;
    json["python"] = manifest.version;
    json["packages"] = Json::array();
    for (const auto& package : manifest.packages) json["packages"].push_back(package.name + "==" + package.version);
    json["bytes"] = manifest.bytes;
    json["last_use"] = status.stored->last_use;
    json["sessions"] = SessionsOf(hub, client, manifest.key);
  }
  return json;
}

// What counts for the client.
Json DescribeUsage(const Hub& hub, const std::string& client, const std::vector<EnvironmentStatus>& all) {
  const std::string owner = EnvironmentOwner(hub, client);
  std::set<std::string> keys;
  uint64_t environments = 0, bytes = 0;
  for (const EnvironmentStatus& status : all) {
    if (status.named.owner != owner || status.state == State::kFailed) continue;
    ++environments;
    if (status.stored && keys.insert(status.named.key).second) bytes += status.stored->manifest.bytes;
  }
  return {{"environments", environments}, {"bytes", bytes}, {"builds", hub.quota.UseOf(client).builds}};
}

struct MakeRequest {
  EnvironmentChoice choice;
  bool replace = false;
  bool wait = true;
};

Answer<MakeRequest> ReadMakeRequest(nlohmann::json body) {
  MakeRequest request;
  for (auto [key, target] : {std::pair{"replace", &request.replace}, {"wait", &request.wait}}) {
    auto found = body.find(key);
    if (found == body.end()) continue;
    if (!found->is_boolean()) return Invalid(fmt::format("{}: must be true or false", key));
    *target = found->get<bool>();
    body.erase(found);
  }
  auto name = body.find("name");
  if (name == body.end() || !name->is_string() || !policy::IsName(name->get_ref<const std::string&>())) {
    return Invalid("name: a name is needed: letters, digits, '.', '_' and '-', 64 at most");
  }
  const std::string given = name->get<std::string>();
  body.erase(name);
  for (const auto& [key, value] : body.items()) {
    if (key != "python" && key != "packages" && key != "preload") {
      return Invalid(policy::UnknownKey(key, {"name", "python", "packages", "preload", "replace", "wait"}));
    }
  }
  if (!body.empty()) {
    auto choice = policy::ReadEnvironment(body);
    if (!choice) return Invalid(choice.error().Text());
    request.choice = std::move(*choice);
  }
  request.choice.name = given;
  return request;
}

async::Task<void> Make(Hub& hub, Call& call) {
  auto body = co_await ReadJsonBody(hub.work, call.exchange, kMaxBody);
  if (!body) co_return;
  auto request = ReadMakeRequest(std::move(*body));
  if (!request) co_return co_await Refuse(call.exchange, std::move(request.error()));
  auto choice = AdmitEnvironment(request->choice, hub.config);
  if (!choice) co_return co_await Refuse(call.exchange, std::move(choice.error()));
  if (hub.draining) co_return co_await Refuse(call.exchange, Draining());
  const std::string owner = EnvironmentOwner(hub, call.client), name = choice->name;
  if (!request->replace) {
    auto there = co_await hub.environments.Find(owner, name);
    if (there && there->state != State::kFailed && there->named.owner == owner) {
      const auto taken = Conflict(fmt::format("there is an environment '{}' already", name), "pass \"replace\": true");
      co_return co_await Refuse(call.exchange, taken.error());
    }
  }
  auto asked = EnvironmentRequestFor(hub, call.client, std::move(*choice));
  asked.replace = request->replace;
  auto begun = co_await hub.environments.Begin(std::move(asked));
  if (!begun) co_return co_await Refuse(call.exchange, EnvironmentFailed(begun.error()));
  if (!request->wait) {
    auto status = co_await hub.environments.Find(owner, name);
    if (!status) co_return co_await Refuse(call.exchange, EnvironmentFailed(status.error()));
    co_return co_await AnswerJson(call.exchange, 202, Describe(hub, call.client, *status));
  }
  auto status = co_await hub.environments.Wait(owner, name);
  if (!status) co_return co_await Refuse(call.exchange, EnvironmentFailed(status.error()));
  if (status->state != State::kReady) {
    co_return co_await Refuse(call.exchange, EnvironmentFailed(status->error));
  }
  co_await AnswerJson(call.exchange, 201, Describe(hub, call.client, *status));
}

async::Task<void> List(Hub& hub, Call& call) {
  auto found = co_await hub.environments.List(EnvironmentOwner(hub, call.client));
  if (!found) co_return co_await Refuse(call.exchange, EnvironmentFailed(found.error()));
  Json list = Json::array();
  for (const EnvironmentStatus& status : *found) list.push_back(Describe(hub, call.client, status));
  co_await AnswerJson(call.exchange, 200,
                      {{"environments", std::move(list)}, {"usage", DescribeUsage(hub, call.client, *found)}});
}

async::Task<void> Show(Hub& hub, Call& call) {
  auto status = co_await hub.environments.Find(EnvironmentOwner(hub, call.client), std::string(call.parameters[0]));
  if (!status) co_return co_await Refuse(call.exchange, EnvironmentFailed(status.error()));
  co_await AnswerJson(call.exchange, 200, Describe(hub, call.client, *status));
}

async::Task<void> Delete(Hub& hub, Call& call) {
  auto removed = co_await hub.environments.Remove(EnvironmentOwner(hub, call.client), std::string(call.parameters[0]));
  if (!removed) co_return co_await Refuse(call.exchange, EnvironmentFailed(removed.error()));
  (void)co_await call.exchange.Send(204, {}, "");
}

}  // namespace

void AddEnvironmentOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/v1/environments", "List your Python environments, and those that the operator made for all", List);
  add("POST", "/v1/environments", "Make a Python environment from packages, under a name", Make);
  add("GET", "/v1/environments/{name}", "Show an environment: building, ready, or failed and why", Show);
  add("DELETE", "/v1/environments/{name}", "Remove an environment; sessions that use it keep it", Delete);
}

}  // namespace cella::server
