// The server itself: health, metrics, and the description of the API, which is made from the table of routes.
#include <nlohmann/json.hpp>

#include "async/blocking_pool.h"
#include "engine/engine.h"
#include "engine/kernels.h"
#include "policy/keys.h"
#include "registry/registry.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/metrics.h"
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
  const auto sessions = hub.sessions.All();
  for (const ExecutorRow& row : kExecutors) {
    const engine::Engine* engine = hub.engines.Find(row.kind);
    if (engine == nullptr) continue;
    Metrics::ExecutorGauges& its = gauges.executors.emplace_back();
    its.executor = row.kind;
    its.ready = engine->executor->readiness();
    for (const auto& session : sessions) {
      if (session->spec().executor != row.kind) continue;
      ++its.sessions;
      its.queued += session->engine().waiting();
      its.memory += session->engine().MemoryUsed().value_or(0);
    }
  }
  gauges.connections = hub.connections();
  gauges.registry_failures = hub.registry.health().failed;
  const std::string text = hub.metrics.Render(gauges);
  (void)co_await call.exchange.Send(200, {{"Content-Type", "text/plain; version=0.0.4"}}, text);
}

async::Task<void> ListKernels(Hub& hub, Call& call) {
  const auto takes_kernels = [](ExecutorKind kind) { return policy::Takes(kind, "kernel"); };
  if (std::ranges::none_of(hub.config.UsableExecutors(), takes_kernels)) {
    co_await Refuse(call.exchange, Forbidden("executor: this server does not allow 'subprocess'",
                                             "the server's configuration decides; ask its operator")
                                       .error());
    co_return;
  }
  const Policy& policy = hub.config.defaults.policy;
  async::BlockingPool pool(hub.loop, {.threads = 1});
  auto list = [&]() -> Result<std::vector<executor::KernelStatus>> {
    return engine::ListKernels(policy.python, policy.venv);
  };
  auto kernels = co_await pool.Run(list);
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  if (kernels) {
    for (const auto& [spec, problem] : *kernels) {
      rows.push_back({{"name", spec.name},
                      {"display_name", spec.display_name},
                      {"language", spec.language},
                      {"argv", spec.argv},
                      {"works", problem.empty()},
                      {"problem", problem.empty() ? Json(nullptr) : Json(problem)}});
    }
  }
  co_await AnswerJson(call.exchange, 200, Json{{"kernels", std::move(rows)}});
}

}  // namespace

void AddServerOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/health", "Whether the server works", Health, Access::kOpen);
  add("GET", "/v1/kernels", "List the Jupyter kernels of the server's machine", ListKernels);
  add("GET", "/metrics", "Numbers for Prometheus", ShowMetrics);
  router->Add(
      {"GET", "/openapi.json", "This description", Access::kOpen, [router, &hub](Call& call) -> async::Task<void> {
         const std::string text = DescribeApi(*router, hub.config.maxima);
         (void)co_await call.exchange.SendJson(200, text);
       }});
}

}  // namespace cella::server
