#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/listen_address.h"
#include "server/origin.h"

namespace cella::server {
namespace {

TEST(ListenAddressTest, ParsesSocketsAndAddresses) {
  EXPECT_EQ(ParseListenAddress("unix:/run/cella/cella.sock")->path, "/run/cella/cella.sock");
  auto four = ParseListenAddress("127.0.0.1:8080").value();
  EXPECT_EQ(four.host, "127.0.0.1");
  EXPECT_EQ(four.port, 8080);
  EXPECT_TRUE(four.is_loopback());
  auto six = ParseListenAddress("[0:0:0:0:0:0:0:1]:0").value();
  EXPECT_EQ(six.host, "::1");
  EXPECT_TRUE(six.is_loopback());
  EXPECT_TRUE(ParseListenAddress("localhost:1")->is_loopback());
  EXPECT_TRUE(ParseListenAddress("0.0.0.0:1")->is_wildcard());
  EXPECT_TRUE(ParseListenAddress("[::]:1")->is_wildcard());
  EXPECT_FALSE(ParseListenAddress("[::]:1")->is_loopback());
  EXPECT_FALSE(ParseListenAddress("10.0.0.1:1")->is_loopback());
}

TEST(ListenAddressTest, RejectsAmbiguousAddresses) {
  for (const char* bad : {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "::1:80",
                          "[127.0.0.1]:80", "example.com:80", "unix:", "unix:run/x", "127.1:80", "127.0.0.1:80 ",
                          "*:80", "127.0.0.1:-1", "127.evil.example:80"}) {
    EXPECT_FALSE(ParseListenAddress(bad)) << bad;
  }
  EXPECT_FALSE(ParseListenAddress("unix:/" + std::string(120, 'a')));
}

TEST(OriginTest, NormalizesHosts) {
  EXPECT_EQ(ParseAuthority("LocalHost.:80")->host, "localhost");
  EXPECT_EQ(ParseAuthority("[0::1]:80")->host, "::1");
  EXPECT_TRUE(ParseAuthority("127.0.0.1")->is_address);
  EXPECT_FALSE(ParseAuthority("127.0.0.1.evil.example")->is_address);
  for (const char* bad : {"", ":", ":80", "a:", "a:0", "a:99999", "a b", "a/b", "a@b", "[::1", "[::1]x", "::1",
                          "a:80:80", "[a]:80", "a..b", ".a", "a\tb", "[127.0.0.1]"}) {
    EXPECT_FALSE(ParseAuthority(bad)) << bad;
  }
}

TEST(OriginTest, ParsesSchemeHostAndPort) {
  EXPECT_EQ(ParseOrigin("https://App.example"), ParseOrigin("HTTPS://app.example:443"));
  EXPECT_NE(ParseOrigin("https://app.example"), ParseOrigin("http://app.example"));
  EXPECT_NE(ParseOrigin("http://localhost:3000"), ParseOrigin("http://localhost:3001"));
  for (const char* bad : {"", "null", "app.example", "file://", "https://", "https://a/b", "https://a?b", "https://u@a",
                          "chrome-extension://abc"}) {
    EXPECT_FALSE(ParseOrigin(bad)) << bad;
  }
}

}  // namespace
}  // namespace cella::server
