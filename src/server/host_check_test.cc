#include "server/host_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cella::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Config Listening(std::vector<std::string> listen) {
  Config config;
  config.server.listen = std::move(listen);
  return config;
}

bool HostPasses(std::string_view host, const Config& config) {
  return CheckHost({.method = "GET", .host = host}, HostRules::From(config)).has_value();
}

TEST(HostCheckTest, DefaultAllowsOnlyOwnNamesAndAddresses) {
  const Config config = Listening({"127.0.0.1:8080", "10.1.2.3:8080", "unix:/x"});
  for (const char* good : {"localhost", "localhost:8080", "LOCALHOST.:1", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3"}) {
    EXPECT_TRUE(HostPasses(good, config)) << good;
  }
  // evil.example may point to 127.0.0.1 by now; its page then calls us "evil.example".
  for (const char* bad : {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
                          "10.1.2.4", "127.0.0.1:8080:1", "localhost@evil.example", "evil.example#localhost", "a b",
                          "0x7f.1", "[::1", "localhost:"}) {
    EXPECT_FALSE(HostPasses(bad, config)) << bad;
  }
}

TEST(HostCheckTest, WildcardAddressAllowsAddressesButNotNames) {
  for (const char* listen : {"0.0.0.0:80", "[::]:80"}) {
    EXPECT_TRUE(HostPasses("192.168.1.5:80", Listening({listen})));
    EXPECT_TRUE(HostPasses("[fe80::1]:80", Listening({listen})));
    EXPECT_FALSE(HostPasses("box.example", Listening({listen})));
  }
}

TEST(HostCheckTest, ConfiguredNamesReplaceTheDefault) {
  Config config = Listening({"0.0.0.0:80"});
  config.server.allowed_hosts = {"Box.example", "other.example:8443"};
  EXPECT_TRUE(HostPasses("box.example:1234", config));
  EXPECT_TRUE(HostPasses("other.example:8443", config));
  EXPECT_FALSE(HostPasses("other.example", config));
  EXPECT_FALSE(HostPasses("localhost", config));
  config.server.allowed_hosts = {"*"};
  EXPECT_TRUE(HostPasses("anything.example", config));
  EXPECT_FALSE(HostPasses("", config));
}

struct PageCase {
  std::string_view method, host, origin, site, type;
  bool passes;
};

TEST(HostCheckTest, RejectsOtherOrigins) {
  constexpr std::string_view kHost = "localhost:8080";
  constexpr std::string_view kJson = "application/json";
  constexpr std::string_view kForm = "application/x-www-form-urlencoded";
  const PageCase kCases[] = {
      // No browser: nothing to say. curl -d calls its JSON a form.
      {"POST", kHost, "", "", kJson, true},
      {"POST", kHost, "", "", kForm, true},
      // The page of this very server.
      {"POST", kHost, "http://localhost:8080", "same-origin", kJson, true},
      {"GET", kHost, "", "same-origin", "", true},
      {"GET", kHost, "", "none", "", true},
      {"POST", kHost, "https://localhost:8080", "", kJson, true},
      {"POST", "localhost", "http://localhost", "", kJson, true},
      // Another one, in every way that there is.
      {"POST", kHost, "https://evil.example", "cross-site", kJson, false},
      {"POST", kHost, "https://evil.example", "", "text/plain", false},
      {"GET", kHost, "https://evil.example", "", "", false},
      {"GET", kHost, "", "cross-site", "", false},
      {"GET", kHost, "", "same-site", "", false},
      {"GET", kHost, "", "something new", "", false},
      {"POST", kHost, "null", "", kJson, false},
      {"POST", kHost, "null", "cross-site", kForm, false},
      {"POST", kHost, "http://localhost:3000", "same-site", kJson, false},
      {"POST", kHost, "http://localhost", "", kJson, false},
      {"POST", "localhost", "http://localhost:3000", "", kJson, false},
      {"POST", kHost, "http://localhost:8080.evil.example", "", kJson, false},
      {"POST", kHost, "http://localhost:8080", "cross-site", kJson, false},
      {"OPTIONS", kHost, "https://evil.example", "cross-site", "", false},
      {"DELETE", kHost, "https://evil.example", "", "", false},
      // A form, even from here.
      {"POST", kHost, "http://localhost:8080", "same-origin", kForm, false},
      {"POST", kHost, "http://localhost:8080", "", "Text/Plain ; charset=utf-8", false},
      {"POST", kHost, "http://localhost:8080", "", "multipart/form-data; boundary=x", false},
      {"POST", kHost, "http://localhost:8080", "", "", true},
  };
  const HostRules rules = HostRules::From(Listening({"127.0.0.1:8080"}));
  for (const PageCase& each : kCases) {
    RequestFacts request{.method = each.method,
                         .host = each.host,
                         .origin = each.origin,
                         .sec_fetch_site = each.site,
                         .content_type = each.type};
    auto checked = CheckHost(request, rules);
    EXPECT_EQ(checked.has_value(), each.passes)
        << each.method << " origin '" << each.origin << "' site '" << each.site << "' type '" << each.type << "'";
    if (!checked) EXPECT_EQ(checked.error().status, 403);
    request.transport = Transport::kUnix;
    EXPECT_TRUE(CheckHost(request, rules)) << "no page opens a Unix socket";
  }
}

TEST(HostCheckTest, AllowedOriginGetsCorsHeaders) {
  Config config = Listening({"127.0.0.1:8080"});
  config.server.allowed_origins = {"https://App.example"};
  const HostRules rules = HostRules::From(config);
  RequestFacts request{.method = "POST",
                       .host = "localhost:8080",
                       .origin = "https://app.example",
                       .sec_fetch_site = "cross-site",
                       .content_type = "application/json"};
  EXPECT_TRUE(CheckHost(request, rules));
  EXPECT_THAT(CorsHeaders(request, rules), Contains(Pair("Access-Control-Allow-Origin", "https://app.example")));
  EXPECT_FALSE(IsPreflight(request));
  request.content_type = "text/plain";
  EXPECT_FALSE(CheckHost(request, rules)) << "it must have asked first";

  request = {.method = "OPTIONS",
             .host = "localhost:8080",
             .origin = "https://app.example",
             .sec_fetch_site = "cross-site",
             .requested_method = "POST"};
  EXPECT_TRUE(CheckHost(request, rules));
  EXPECT_TRUE(IsPreflight(request));
  EXPECT_THAT(CorsHeaders(request, rules), Contains(Pair("Access-Control-Allow-Methods", ::testing::_)));

  for (const char* other : {"http://app.example", "https://app.example:8443", "https://evil.example", "null", ""}) {
    request.origin = other;
    EXPECT_THAT(CorsHeaders(request, rules), ElementsAre(Pair("Vary", "Origin"))) << other;
    EXPECT_FALSE(CheckHost(request, rules)) << other;
  }
  request.origin = "https://app.example";
  request.host = "evil.example";
  EXPECT_FALSE(CheckHost(request, rules)) << "the name still counts";
}

TEST(HostCheckTest, WithoutConfiguredOriginsNoCorsHeaderIsSent) {
  const HostRules rules = HostRules::From(Listening({"127.0.0.1:8080"}));
  EXPECT_THAT(CorsHeaders({.method = "GET", .host = "localhost", .origin = "https://a.example"}, rules), IsEmpty());
  EXPECT_THAT(CorsHeaders({.method = "GET", .host = "localhost"}, rules), IsEmpty());
}

TEST(HostCheckTest, StarAllowsEveryOriginExceptNull) {
  Config config = Listening({"127.0.0.1:8080"});
  config.server.allowed_origins = {"*"};
  const HostRules rules = HostRules::From(config);
  RequestFacts request{
      .method = "POST", .host = "localhost", .origin = "https://a.example", .content_type = "application/json"};
  EXPECT_TRUE(CheckHost(request, rules));
  EXPECT_THAT(CorsHeaders(request, rules), Contains(Pair("Access-Control-Allow-Origin", "https://a.example")));
  request.origin = "null";
  EXPECT_FALSE(CheckHost(request, rules));
}

}  // namespace
}  // namespace cella::server
