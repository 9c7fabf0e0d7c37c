// Values that a client gives to a session: they become variables of its code.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "policy/names.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/operations.h"
#include "server/quota.h"
#include "server/values.h"
#include "session/variables.h"

namespace cella::server {

async::Task<Answer<void>> PutValue(Hub& hub, HostedSession& session, Variable value, std::string language) {
  auto share = hub.quota.TakeRun(session.owner());
  if (!share) co_return std::unexpected(std::move(share.error()));
  // A run of no code: it waits for its turn, and the next checkpoint has the value.
  RunSpec spec;
  spec.blocks = {{std::move(language), ""}};
  spec.list_files = false;
  spec.variables.push_back(std::move(value));
  if (Status checked = session::CheckVariables(spec.variables); !checked) co_return Refused(checked.error());
  auto ran = co_await session.engine().RunToEnd(std::move(spec));
  if (!ran) co_return Refused(ran.error());
  session.NoteEnd(*ran);
  const Outcome& outcome = ran->outcome;
  if (outcome.status == RunStatus::kOk) co_return Answer<void>{};
  if (!outcome.error) co_return Conflict(fmt::format("the value was not taken: {}", ToString(outcome.status)));
  co_return Conflict(fmt::format("the value was not taken: {}: {}", outcome.error->name, outcome.error->message));
}

namespace {

async::Task<void> Put(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  const http::Request& request = call.exchange.request();
  const std::string kind(request.parameter("kind").value_or("bytes"));
  Variable value{.name = std::string(call.parameters[1]), .kind = Variable::Kind::kBytes, .data = {}};
  if (kind == "text") value.kind = Variable::Kind::kText;
  if (kind == "json") value.kind = Variable::Kind::kJson;
  if (kind != "text" && kind != "json" && kind != "bytes") {
    co_return co_await Refuse(
        call.exchange,
        Invalid(fmt::format("kind: must be text, json or bytes, got '{}'", policy::Shown(kind))).error());
  }
  const std::string language(request.parameter("language").value_or(""));
  auto body = co_await call.exchange.ReadBody(hub.config.server.max_body);
  if (!body) co_return;
  if (value.kind != Variable::Kind::kBytes) {
    auto is_utf8 = [&body]() -> Result<bool> { return ToUtf8Lossy(*body) == *body; };
    auto valid = co_await hub.work.Run(is_utf8);
    if (!valid || !*valid) co_return co_await Refuse(call.exchange, Invalid("the body is not UTF-8").error());
  }
  value.data = std::move(*body);
  auto put = co_await PutValue(hub, **session, std::move(value), language);
  if (!put) co_return co_await Refuse(call.exchange, std::move(put.error()));
  (void)co_await call.exchange.Send(204, {}, "");
}

}  // namespace

void AddValueOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("PUT", "/v1/sessions/{id}/variables/{name}", "Give a value to the code as a variable", Put);
}

}  // namespace cella::server
