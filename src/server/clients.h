// Who a request comes from. Fails closed: without a token only processes of the server's own user and root that share
// its user and pid namespaces get in, over a Unix socket, unless the operator turned authentication off. Lives on the
// loop.
#pragma once

#include <sys/types.h>

#include <string>

#include "http/exchange.h"
#include "server/api_error.h"
#include "server/tokens.h"

namespace cella::server {

// Whose sessions are those that come without a token.
inline constexpr const char* kLocalClient = "local";

class Clients {
 public:
  // When a request needs a token: kTokenOverTcp (over a Unix socket the kernel tells who the peer is), kTokenAlways, or
  // kNoToken (`server.no_auth`).
  enum class Demand { kTokenOverTcp, kTokenAlways, kNoToken };

  // `tokens` outlives this; without one no client has a token.
  Clients(const Tokens* tokens, Demand demand, uid_t own_uid) : tokens_(tokens), demand_(demand), uid_(own_uid) {}

  // The client's name; 401 or 403 with words that never tell a token.
  Answer<std::string> Identify(const http::Exchange& exchange) const;

 private:
  // Of a request without a token.
  Answer<std::string> IdentifyBySocket(const http::Peer& peer) const;

  const Tokens* tokens_;
  Demand demand_;
  uid_t uid_;
};

}  // namespace cella::server
