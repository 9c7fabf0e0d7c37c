// What is done to a session besides running code: interrupt, reset, input, questions about names, checkpoints.
#include <nlohmann/json.hpp>

#include "policy/names.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxQuestion = uint64_t{4} << 20;

// The session and the body of a request, or an answer that was sent.
struct Asked {
  std::shared_ptr<HostedSession> session;
  nlohmann::json body;
};

async::Task<std::optional<Asked>> Take(Hub& hub, Call& call, std::vector<std::string_view> keys) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) {
    co_await Refuse(call.exchange, std::move(session.error()));
    co_return std::nullopt;
  }
  auto body = co_await ReadJsonBody(hub.work, call.exchange, kMaxQuestion);
  if (!body) co_return std::nullopt;
  for (const auto& [key, value] : body->items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    co_await Refuse(call.exchange, Invalid(policy::UnknownKey(key, keys)).error());
    co_return std::nullopt;
  }
  co_return Asked{std::move(*session), std::move(*body)};
}

async::Task<void> AnswerStatus(Call& call, const Status& status, Json json) {
  if (!status) co_return co_await Refuse(call.exchange, ToApiError(status.error()));
  co_await AnswerJson(call.exchange, 200, json);
}

async::Task<void> Interrupt(Hub& hub, Call& call) {
  auto asked = co_await Take(hub, call, {});
  if (!asked) co_return;
  auto run = asked->session->current();
  const bool interrupted = run && run->Stop(StopReason::kInterrupt);
  co_await AnswerJson(call.exchange, 200, {{"interrupted", interrupted}});
}

async::Task<void> Reset(Hub& hub, Call& call) {
  auto asked = co_await Take(hub, call, {});
  if (!asked) co_return;
  auto reset = co_await asked->session->engine().Reset();
  co_await AnswerStatus(call, reset, {{"reset", true}});
}

async::Task<void> Input(Hub& hub, Call& call) {
  auto asked = co_await Take(hub, call, {"text", "eof", "run"});
  if (!asked) co_return;
  auto run = asked->session->current();
  if (auto named = asked->body.find("run"); named != asked->body.end() && !named->is_null()) {
    if (!named->is_string()) co_return co_await Refuse(call.exchange, MustBe("run", "a string", *named).error());
    run = asked->session->FindRun(named->get_ref<const std::string&>());
    if (!run) co_return co_await Refuse(call.exchange, NotFound("there is no such run").error());
  }
  std::optional<std::string> text;
  if (auto found = asked->body.find("text"); found != asked->body.end() && !found->is_null()) {
    if (!found->is_string()) co_return co_await Refuse(call.exchange, MustBe("text", "a string", *found).error());
    text = found->get<std::string>();
  }
  const Status replied =
      run ? run->Reply(std::move(text)) : Status(Err(ErrorCode::kInvalid, "nothing waits for input"));
  co_await AnswerStatus(call, replied, {{"accepted", true}});
}

async::Task<void> Question(Hub& hub, Call& call, CodeQuestion question) {
  auto asked = co_await Take(hub, call, {"code", "cursor", "language"});
  if (!asked) co_return;
  const nlohmann::json& body = asked->body;
  const bool sound = body.contains("code") && body["code"].is_string() &&
                     (!body.contains("cursor") || body["cursor"].is_number_unsigned()) &&
                     (!body.contains("language") || body["language"].is_string());
  if (!sound) {
    co_return co_await Refuse(
        call.exchange, Invalid("'code' (text) is needed; 'cursor' is a position in it, 'language' a name").error());
  }
  auto code = body["code"].get<std::string>();
  const size_t cursor = body.value("cursor", code.size());
  auto answer =
      co_await asked->session->engine().Ask(body.value("language", "python"), question, std::move(code), cursor);
  if (!answer) co_return co_await Refuse(call.exchange, ToApiError(answer.error()));
  (void)co_await call.exchange.SendJson(200, *answer);
}

async::Task<void> Complete(Hub& hub, Call& call) { return Question(hub, call, CodeQuestion::kComplete); }
async::Task<void> Inspect(Hub& hub, Call& call) { return Question(hub, call, CodeQuestion::kInspect); }

async::Task<void> ListCheckpoints(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  co_await AnswerJson(call.exchange, 200, {{"checkpoints", (*session)->engine().Checkpoints()}});
}

async::Task<void> SaveCheckpoint(Hub& hub, Call& call) {
  auto asked = co_await Take(hub, call, {"name"});
  if (!asked) co_return;
  if (!asked->body.contains("name") || !asked->body["name"].is_string() ||
      !policy::IsName(asked->body["name"].get_ref<const std::string&>())) {
    co_return co_await Refuse(call.exchange, Invalid("name: letters, digits, '.', '_' and '-', 1 to 64").error());
  }
  const auto name = asked->body["name"].get<std::string>();
  auto saved = co_await asked->session->engine().SaveCheckpoint(name);
  if (!saved) co_return co_await Refuse(call.exchange, ToApiError(saved.error()));
  co_await AnswerJson(call.exchange, 201, {{"name", name}});
}

async::Task<void> Rollback(Hub& hub, Call& call) {
  auto asked = co_await Take(hub, call, {});
  if (!asked) co_return;
  auto done = co_await asked->session->engine().Rollback(std::string(call.parameters[1]));
  co_await AnswerStatus(call, done, {{"name", call.parameters[1]}, {"state", "rolled_back"}});
}

async::Task<void> DropCheckpoint(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  auto dropped = co_await (*session)->engine().DropCheckpoint(std::string(call.parameters[1]));
  if (!dropped) co_return co_await Refuse(call.exchange, ToApiError(dropped.error()));
  (void)co_await call.exchange.Send(204, {}, "");
}

}  // namespace

void AddGuestOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("POST", "/v1/sessions/{id}/interrupt", "Interrupt the run that is on; state is kept", Interrupt);
  add("POST", "/v1/sessions/{id}/reset", "Forget all variables; files stay", Reset);
  add("POST", "/v1/sessions/{id}/input", "Answer the code that waits for input", Input);
  add("POST", "/v1/sessions/{id}/complete", "Complete a name at a position of code", Complete);
  add("POST", "/v1/sessions/{id}/inspect", "Explain the name at a position of code", Inspect);
  add("GET", "/v1/sessions/{id}/checkpoints", "List the named checkpoints", ListCheckpoints);
  add("POST", "/v1/sessions/{id}/checkpoints", "Save the state under a name", SaveCheckpoint);
  add("POST", "/v1/sessions/{id}/checkpoints/{name}/rollback", "Go back to a named checkpoint", Rollback);
  add("DELETE", "/v1/sessions/{id}/checkpoints/{name}", "Drop a named checkpoint", DropCheckpoint);
}

}  // namespace cella::server
