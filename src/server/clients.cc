#include "server/clients.h"

namespace cella::server {
namespace {

std::unexpected<ApiError> Unauthorized(std::string message) {
  return std::unexpected(ApiError{401,
                                  "unauthorized",
                                  std::move(message),
                                  "send 'Authorization: Bearer TOKEN'; 'cella token new NAME' makes one",
                                  {}});
}

}  // namespace

Answer<std::string> Clients::Identify(const http::Exchange& exchange) const {
  const http::Peer& peer = exchange.peer();
  if (peer.is_unix && peer.uid != uid_ && peer.uid != 0) {
    return Forbidden("this socket is for the user who started the server, and for root");
  }
  // A token says who it is, also where none is needed.
  if (auto header = exchange.request().header("Authorization")) {
    std::string_view token = BearerToken(*header);
    if (token.empty()) return Unauthorized("the Authorization header has no bearer token");
    const std::string* client = tokens_ == nullptr ? nullptr : tokens_->Find(token);
    if (client == nullptr) return Unauthorized("no client has this token");
    return *client;
  }
  return IdentifyBySocket(peer);
}

Answer<std::string> Clients::IdentifyBySocket(const http::Peer& peer) const {
  if (demand_ == Demand::kTokenAlways || (!peer.is_unix && demand_ == Demand::kTokenOverTcp)) {
    return Unauthorized("a token is needed");
  }
  // A guest of a jail that the server's own user started has the uid of that user.
  if (peer.is_unix && !peer.shares_namespaces) {
    return Forbidden("this process is not in the server's user and pid namespaces, as in a container or a jail",
                     "send 'Authorization: Bearer TOKEN'; 'cella token new NAME' makes one");
  }
  return std::string(kLocalClient);
}

}  // namespace cella::server
