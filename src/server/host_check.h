// Whether a request may come from where its headers say: against web pages that reach a server on a user's own
// machine, by a name that was made to point there (DNS rebinding) or simply across sites. Browsers set these headers
// and pages cannot; other programs may send what they like, and authentication is for them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/config.h"
#include "server/origin.h"

namespace cella::server {

enum class Transport { kTcp, kUnix };

// Headers as they came; empty: there is none.
struct RequestFacts {
  Transport transport = Transport::kTcp;
  std::string_view method = {};
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view sec_fetch_site = {};
  std::string_view content_type = {};
  std::string_view requested_method = {};  // Access-Control-Request-Method
};

// The configuration in the form that is compared. Completed addresses (CompleteConfig) are expected.
struct HostRules {
  std::vector<Authority> hosts;  // without a port: with any
  bool any_host = false;
  bool any_address = false;  // every IP address, but no name: those cannot be rebound
  std::vector<Origin> origins;
  bool any_origin = false;

  static HostRules From(const Config& config);
};

// 403: the request is not to be looked at any further. No page can open a Unix socket, so everything passes there.
Answer<void> CheckHost(const RequestFacts& request, const HostRules& rules);

// A browser asks whether it may send a request. To be answered 204 with the headers below, without authentication.
bool IsPreflight(const RequestFacts& request);

using Headers = std::vector<std::pair<std::string, std::string>>;
// Empty unless origins are configured. For requests that passed CheckHost.
Headers CorsHeaders(const RequestFacts& request, const HostRules& rules);

}  // namespace cella::server
