// The operations of the API, by subject. Each function adds its routes; `hub` outlives the router.
#pragma once

#include "server/hub.h"
#include "server/router.h"

namespace cella::server {

// Adds routes whose operations are functions of hub and call.
class RouteAdder {
 public:
  RouteAdder(Hub& hub, Router* router) : hub_(hub), router_(router) {}
  void operator()(std::string_view method, std::string_view pattern, std::string_view summary,
                  async::Task<void> (*operation)(Hub&, Call&), Access access = Access::kClient) const {
    router_->Add(
        {method, pattern, summary, access, [hub = &hub_, operation](Call& call) { return operation(*hub, call); }});
  }

 private:
  Hub& hub_;
  Router* router_;
};

void AddSessionOperations(Hub& hub, Router* router);
void AddRunOperations(Hub& hub, Router* router);
void AddGuestOperations(Hub& hub, Router* router);  // interrupt, reset, input, complete, inspect, checkpoints
void AddDepsOperations(Hub& hub, Router* router);   // packages of a session
void AddEnvironmentOperations(Hub& hub, Router* router);
void AddChannelOperations(Hub& hub, Router* router);
void AddFileOperations(Hub& hub, Router* router);
void AddStorageOperations(Hub& hub, Router* router);  // artifacts, workflows
void AddOneShotOperations(Hub& hub, Router* router);  // run, batch
void AddValueOperations(Hub& hub, Router* router);    // variables
void AddServerOperations(Hub& hub, Router* router);   // health, metrics, openapi.json

}  // namespace cella::server
