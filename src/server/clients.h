// Who a request comes from. Fails closed: without a token only the server's own user and root get in, over a Unix
// socket, unless the operator turned authentication off. Lives on the loop.
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
  // `tokens` outlives this; without one nobody has a token. `no_auth` lets everybody in over TCP.
  Clients(const Tokens* tokens, bool no_auth, uid_t own_uid) : tokens_(tokens), no_auth_(no_auth), uid_(own_uid) {}

  // The client's name; 401 or 403 with words that never tell a token.
  Answer<std::string> Identify(const http::Exchange& exchange) const;

 private:
  const Tokens* tokens_;
  bool no_auth_;
  uid_t uid_;
};

}  // namespace cella::server
