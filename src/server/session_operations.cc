// Sessions: open, list, look at, delete.
#include <charconv>
#include <nlohmann/json.hpp>

#include "registry/registry.h"
#include "server/admission.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "session/json_value.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxDocument = uint64_t{1} << 20;

async::Task<void> Create(Hub& hub, Call& call) {
  auto body = co_await ReadJsonBody(hub.work, call.exchange, kMaxDocument);
  if (!body) co_return;
  auto request = ReadPolicy(*body);
  if (!request) co_return co_await Refuse(call.exchange, std::move(request.error()));
  auto spec = Admit(*request, hub.config, call.client);
  if (!spec) co_return co_await Refuse(call.exchange, std::move(spec.error()));
  auto session = co_await hub.sessions.Open(hub, std::move(*spec), call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  if (!call.exchange.is_connected()) {
    // No client would ever learn its id.
    (*session)->Stop("its client left before it was open");
    co_return;
  }
  co_await AnswerJson(call.exchange, 201, (*session)->Describe());
}

Json Describe(const registry::SessionRecord& record) {
  Json json;
  json["id"] = record.id;
  json["name"] = record.name.empty() ? Json(nullptr) : Json(record.name);
  json["labels"] = Json::parse(record.labels, nullptr, false);
  json["executor"] = record.executor;
  json["status"] = record.status == registry::SessionStatus::kLost ? "lost" : "closed";
  json["closed_because"] = record.closed_because;
  return json;
}

async::Task<void> List(Hub& hub, Call& call) {
  const http::Request& request = call.exchange.request();
  registry::PageQuery query;
  query.after = request.parameter("after").value_or("");
  query.order = registry::Order::kNewestFirst;
  if (auto limit = request.parameter("limit")) {
    auto [end, error] = std::from_chars(limit->begin(), limit->end(), query.limit);
    if (error != std::errc() || end != limit->end() || query.limit == 0 || query.limit > registry::kMaxPage) {
      co_return co_await Refuse(call.exchange, Invalid("limit: a number from 1 to 1000").error());
    }
  }
  auto page = co_await hub.registry.ListSessions(call.client, std::move(query));
  if (!page) co_return co_await Refuse(call.exchange, ToApiError(page.error()));
  Json sessions = Json::array();
  for (const registry::SessionRecord& record : page->items) {
    if (record.closed_because == kDeleted) continue;
    auto live = hub.sessions.Find(record.id, call.client);
    sessions.push_back(live ? (*live)->Describe() : Describe(record));
  }
  co_await AnswerJson(call.exchange, 200,
                      {{"sessions", std::move(sessions)}, {"next", page->next.empty() ? Json() : Json(page->next)}});
}

async::Task<void> Show(Hub& hub, Call& call) {
  std::string id(call.parameters[0]);
  auto live = hub.sessions.Find(id, call.client);
  if (live) {
    Json json = (*live)->Describe();
    const run::GuestUsage usage = co_await (*live)->engine().MeasureUsage();
    json["usage"] = session::JsonOf(usage);
    co_return co_await AnswerJson(call.exchange, 200, json);
  }
  auto record = co_await hub.registry.FindSession(id);
  if (!record) co_return co_await Refuse(call.exchange, ToApiError(record.error()));
  const bool there = *record && (*record)->owner == call.client && (*record)->closed_because != kDeleted;
  if (!there) co_return co_await Refuse(call.exchange, std::move(live.error()));
  co_await AnswerJson(call.exchange, 200, Describe(**record));
}

async::Task<void> Delete(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  (*session)->Stop(kDeleted);
  (void)co_await (*session)->Gone();
  if (const Status& ended = (*session)->ended(); !ended) {
    co_return co_await Refuse(
        call.exchange,
        {500, "not_recorded", "the session has ended, but that could not be written down: " + ended.error().message, "",
         std::nullopt});
  }
  (void)co_await call.exchange.Send(204, {}, "");
}

}  // namespace

void AddSessionOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("POST", "/v1/sessions", "Open a session from a Policy document", Create);
  add("GET", "/v1/sessions", "List your sessions, newest first", List);
  add("GET", "/v1/sessions/{id}", "Show a session", Show);
  add("DELETE", "/v1/sessions/{id}", "End a session and everything in it", Delete);
}

}  // namespace cella::server
