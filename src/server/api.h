// The API as the transport sees it: every request is checked here (where it comes from, who sent it, how often), then
// handed to the operation of its route. Lives on the loop.
#pragma once

#include "http/exchange.h"
#include "server/clients.h"
#include "server/host_check.h"
#include "server/hub.h"
#include "server/observed_exchange.h"
#include "server/router.h"

namespace cella::server {

class Api : public http::Handler {
 public:
  // All of it outlives this.
  Api(Hub& hub, const Clients& clients, HostRules rules);

  async::Task<void> Handle(http::Exchange& exchange) override;
  bool AcceptsEscapedSlash(const http::Request& request) const override;

  const Router& router() const { return router_; }

 private:
  // What is told of a request when it is over.
  struct Handled {
    std::string client;
    std::string_view pattern;  // of its route, never the path: file names must not be logged
  };
  async::Task<void> Dispatch(http::Exchange& exchange, Handled* handled);
  void Tell(const ObservedExchange& exchange, const Handled& handled, async::TimePoint since);

  Hub& hub_;
  const Clients& clients_;
  const HostRules rules_;
  Router router_;
};

}  // namespace cella::server
