#include "server/api.h"

#include "server/answer.h"
#include "server/observed_exchange.h"
#include "server/operations.h"

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
  AddChannelOperations(hub, &router_);
  AddFileOperations(hub, &router_);
  AddOneShotOperations(hub, &router_);
  AddServerOperations(hub, &router_);
}

bool Api::AcceptsEscapedSlash(const http::Request& request) const {
  // Names of files may hold what they like; they are read as one relative path and checked as such.
  const auto segments = request.segments();
  return segments.size() > 4 && segments[1] == "sessions" && segments[3] == "files";
}

async::Task<void> Api::Handle(http::Exchange& plain) {
  const RequestFacts facts = FactsOf(plain);
  auto allowed = CheckHost(facts, rules_);
  const Headers cors = allowed ? CorsHeaders(facts, rules_) : Headers{};
  ObservedExchange exchange(plain, cors, hub_.metrics);
  if (!allowed) co_return co_await Refuse(exchange, std::move(allowed.error()));
  if (IsPreflight(facts)) {
    (void)co_await exchange.Send(204, {}, "");
    co_return;
  }
  co_await Dispatch(exchange);
}

async::Task<void> Api::Dispatch(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  Router::Match match = router_.Find(request.method(), request.segments());
  const bool open = match.route != nullptr && match.route->access == Access::kOpen;
  Call call{exchange, {}, std::move(match.parameters), match.rest};
  if (!open) {
    // Before anybody learns which paths there are.
    auto client = clients_.Identify(exchange);
    if (!client) co_return co_await Refuse(exchange, std::move(client.error()));
    call.client = std::move(*client);
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
