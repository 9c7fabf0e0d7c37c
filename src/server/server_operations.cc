// The server itself: health, metrics, and the description of the API, which is made from the table of routes.
#include <nlohmann/json.hpp>

#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/openapi.h"
#include "server/operations.h"

namespace cella::server {
namespace {

async::Task<void> Health(Hub& hub, Call& call) {
  co_await AnswerJson(call.exchange, hub.draining ? 503 : 200,
                      {{"status", hub.draining ? "draining" : "ok"}, {"version", CELLA_VERSION}});
}

async::Task<void> ShowMetrics(Hub& hub, Call& call) {
  Metrics::Gauges gauges;
  gauges.sessions = hub.sessions.size();
  for (const auto& session : hub.sessions.All()) {
    gauges.queued += session->engine().waiting();
    gauges.memory += session->engine().MemoryUsed().value_or(0);
  }
  if (hub.engines.sandbox) gauges.ready = hub.engines.sandbox->executor->readiness();
  gauges.connections = hub.connections();
  gauges.registry_failures = hub.registry.health().failed;
  const std::string text = hub.metrics.Render(gauges);
  (void)co_await call.exchange.Send(200, {{"Content-Type", "text/plain; version=0.0.4"}}, text);
}

}  // namespace

void AddServerOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/health", "Whether the server works", Health, Access::kOpen);
  add("GET", "/metrics", "Numbers for Prometheus", ShowMetrics);
  router->Add({"GET", "/openapi.json", "This description", Access::kOpen, [router](Call& call) -> async::Task<void> {
                 const std::string text = DescribeApi(*router);
                 (void)co_await call.exchange.SendJson(200, text);
               }});
}

}  // namespace cella::server
