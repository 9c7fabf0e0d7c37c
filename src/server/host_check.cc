#include "server/host_check.h"

#include <algorithm>

#include "policy/names.h"
#include "server/listen_address.h"

namespace cella::server {
namespace {

bool HostAllowed(const Authority& host, const HostRules& rules) {
  if (rules.any_host || (rules.any_address && host.is_address)) return true;
  return std::ranges::any_of(rules.hosts, [&](const Authority& allowed) {
    return allowed.host == host.host && (!allowed.port || allowed.port == host.port);
  });
}

bool OriginAllowed(const Origin& origin, const HostRules& rules) {
  return rules.any_origin || std::ranges::find(rules.origins, origin) != rules.origins.end();
}

// The page came from this very server.
bool SameOrigin(const Origin& origin, const Authority& host) {
  // A proxy may speak TLS for us, so that the scheme does not tell; the port, where Host has one, does.
  if (origin.authority.host != host.host) return false;
  return host.port ? host.port == origin.authority.port : origin.authority.port == 80 || origin.authority.port == 443;
}

// What a form on any page may send without the browser asking first.
bool IsFormType(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  type.erase(type.find_last_not_of(" \t") + 1);
  std::ranges::transform(type, type.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return type == "application/x-www-form-urlencoded" || type == "multipart/form-data" || type == "text/plain";
}

}  // namespace

HostRules HostRules::From(const Config& config) {
  HostRules rules;
  for (const std::string& text : config.server.allowed_origins) {
    if (text == "*") {
      rules.any_origin = true;
    } else if (auto origin = ParseOrigin(text)) {
      rules.origins.push_back(std::move(*origin));
    }
  }
  for (const std::string& text : config.server.allowed_hosts) {
    if (text == "*") {
      rules.any_host = true;
    } else if (auto host = ParseAuthority(text)) {
      rules.hosts.push_back(std::move(*host));
    }
  }
  if (!config.server.allowed_hosts.empty()) return rules;
  for (const char* own : {"localhost", "127.0.0.1", "[::1]"}) rules.hosts.push_back(*ParseAuthority(own));
  for (const std::string& text : config.server.listen) {
    auto address = ParseListenAddress(text);
    if (!address || address->is_unix()) continue;
    if (address->is_wildcard()) rules.any_address = true;
    Authority host{.host = address->host, .port = std::nullopt, .is_address = address->host != "localhost"};
    rules.hosts.push_back(std::move(host));
  }
  return rules;
}

Answer<void> CheckHost(const RequestFacts& request, const HostRules& rules) {
  if (request.transport == Transport::kUnix) return {};
  auto host = ParseAuthority(request.host);
  if (!host) return Forbidden(fmt::format("the Host header '{}' names no host", policy::Shown(request.host)));
  if (!HostAllowed(*host, rules)) {
    return Forbidden(fmt::format("this server does not answer to the name '{}'", policy::Shown(request.host)),
                     "add it to server.allowed_hosts");
  }

  bool from_page = !request.origin.empty() || !request.sec_fetch_site.empty();
  if (!from_page) return {};
  // Names, not "null": that is what every sandboxed frame and local file calls itself.
  auto origin = ParseOrigin(request.origin);
  bool allowed = origin && OriginAllowed(*origin, rules);
  if (!allowed) {
    if (!request.origin.empty() && !(origin && SameOrigin(*origin, *host))) {
      return Forbidden(fmt::format("pages of '{}' may not call this server", policy::Shown(request.origin)),
                       "add the origin to server.allowed_origins");
    }
    // An image or a link of another site has no Origin, but the browser says so here.
    if (!request.sec_fetch_site.empty() && request.sec_fetch_site != "same-origin" &&
        request.sec_fetch_site != "none") {
      return Forbidden("pages of other sites may not call this server", "add their origin to server.allowed_origins");
    }
  }
  // Nothing of ours is a form, and a form is the one body that needs no permission to be sent from elsewhere.
  if (request.method != "GET" && request.method != "HEAD" && IsFormType(request.content_type)) {
    return Forbidden(fmt::format("a page may not send '{}'", policy::Shown(request.content_type)),
                     "send application/json");
  }
  return {};
}

bool IsPreflight(const RequestFacts& request) {
  return request.method == "OPTIONS" && !request.origin.empty() && !request.requested_method.empty();
}

Headers CorsHeaders(const RequestFacts& request, const HostRules& rules) {
  if (rules.origins.empty() && !rules.any_origin) return {};
  // Also without an origin: a cache must not give one origin's answer to another.
  Headers headers = {{"Vary", "Origin"}};
  auto origin = ParseOrigin(request.origin);
  if (!origin || !OriginAllowed(*origin, rules)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", request.origin);
  if (IsPreflight(request)) {
    headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
    headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Last-Event-ID");
    headers.emplace_back("Access-Control-Max-Age", "600");
  } else {
    headers.emplace_back("Access-Control-Expose-Headers", "Retry-After, Location, WWW-Authenticate");
  }
  return headers;
}

}  // namespace cella::server
