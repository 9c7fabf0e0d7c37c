#include "server/api.h"

#include "server/answer.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/operations.h"
#include "server/quota.h"

namespace cella::server {
namespace {

RequestFacts FactsOf(const http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  auto header = [&](std::string_view name) { return request.header(name).value_or(""); };
  RequestFacts facts;
  facts.transport = exchange.peer().is_unix ? Transport::kUnix : Transport::kTcp;
  facts.method = request.method();
  facts.host = header("Host");
  facts.origin = header("Origin");
  facts.sec_fetch_site = header("Sec-Fetch-Site");
  facts.content_type = header("Content-Type");
  facts.requested_method = header("Access-Control-Request-Method");
  return facts;
}

}  // namespace

Api::Api(Hub& hub, const Clients& clients, HostRules rules) : hub_(hub), clients_(clients), rules_(std::move(rules)) {
  AddSessionOperations(hub, &router_);
  AddRunOperations(hub, &router_);
  AddGuestOperations(hub, &router_);
  AddDepsOperations(hub, &router_);
  AddEnvironmentOperations(hub, &router_);
  AddChannelOperations(hub, &router_);
  AddFileOperations(hub, &router_);
  AddStorageOperations(hub, &router_);
  AddValueOperations(hub, &router_);
  AddOneShotOperations(hub, &router_);
  AddServerOperations(hub, &router_);
}

bool Api::AcceptsEscapedSlash(const http::Request& request) const {
  // Names of files may hold what they like; they are read as one relative path and checked as such.
  const auto segments = request.segments();
  return segments.size() > 4 && segments[1] == "sessions" && (segments[3] == "files" || segments[3] == "artifacts");
}

async::Task<void> Api::Handle(http::Exchange& plain) {
  const RequestFacts facts = FactsOf(plain);
  auto allowed = CheckHost(facts, rules_);
  const Headers cors = allowed ? CorsHeaders(facts, rules_) : Headers{};
  ObservedExchange exchange(plain, cors, hub_.metrics);
  const async::TimePoint since = async::Clock::now();
  Handled handled;
  if (!allowed) {
    co_await Refuse(exchange, std::move(allowed.error()));
  } else if (IsPreflight(facts)) {
    (void)co_await exchange.Send(204, {}, "");
  } else {
    co_await Dispatch(exchange, &handled);
  }
  Tell(exchange, handled, since);
}

void Api::Tell(const ObservedExchange& exchange, const Handled& handled, async::TimePoint since) {
  const int status = exchange.status();
  const bool refused = status == 401 || status == 403 || status == 429;
  const LogLevel level = status >= 500 ? LogLevel::kError : refused ? LogLevel::kWarning : LogLevel::kDebug;
  if (!hub_.log.Wants(level)) return;
  const std::chrono::duration<double, std::milli> took = async::Clock::now() - since;
  hub_.log.Write(level,
                 refused         ? "request.refused"
                 : status >= 500 ? "request.failed"
                                 : "request",
                 fmt::format("{} {} {}", exchange.request().method(), handled.pattern, status),
                 {{"client", handled.client},
                  {"method", exchange.request().method()},
                  {"route", handled.pattern},
                  {"status", int64_t{status}},
                  {"took_ms", took.count()},
                  {"error", exchange.failure()}});
}

async::Task<void> Api::Dispatch(http::Exchange& exchange, Handled* handled) {
  const http::Request& request = exchange.request();
  Router::Match match = router_.Find(request.method(), request.segments());
  if (match.route != nullptr) handled->pattern = match.route->pattern;
  const bool open = match.route != nullptr && match.route->access == Access::kOpen;
  Call call{exchange, {}, std::move(match.parameters), match.rest};
  if (!open) {
    // Before the answer shows which paths there are.
    auto client = clients_.Identify(exchange);
    if (!client) co_return co_await Refuse(exchange, std::move(client.error()));
    call.client = std::move(*client);
    handled->client = call.client;
    auto share = hub_.quota.TakeRequest(call.client, async::Clock::now());
    if (!share) co_return co_await Refuse(exchange, std::move(share.error()));
  }
  if (match.route != nullptr) co_return co_await match.route->operation(call);
  if (match.allow.empty()) {
    co_return co_await Refuse(exchange, NotFound("there is no such path; GET /openapi.json tells all of them").error());
  }
  (void)co_await exchange.Send(
      405, {{"Allow", match.allow}, {"Content-Type", "application/json"}},
      R"({"error":{"code":"method_not_allowed","message":"the Allow header names the methods of this path"}})");
}

}  // namespace cella::server
