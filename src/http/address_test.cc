#include "http/address.h"

#include <gmock/gmock.h>

namespace cella::http {
namespace {

using testing::HasSubstr;

TEST(AddressTest, RoundTrips) {
  for (const char* text : {"unix:/run/cella.sock", "unix:relative", "127.0.0.1:8080", "[::1]:8080", "localhost:0"}) {
    auto address = ParseAddress(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->ToString(), text);
    EXPECT_EQ(ParseAddress(address->ToString()), *address);
  }
}

TEST(AddressTest, EmptyHostIsLoopback) { EXPECT_EQ(ParseAddress(":0")->ToString(), "127.0.0.1:0"); }

TEST(AddressTest, RejectsTooLongSocketPathAndNamesTheLimit) {
  EXPECT_TRUE(ParseAddress("unix:/" + std::string(kMaxSocketPath - 1, 'x')));
  auto address = ParseAddress("unix:/" + std::string(kMaxSocketPath, 'x'));
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().message, HasSubstr("has 108 bytes; Linux allows 107"));
}

TEST(AddressTest, RejectsMalformedAddress) {
  for (std::string text :
       {"", "unix:", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", "localhost:1x",
        "::1:8080", "[::1]", "[::1]:", "[::zz]:1", "[localhost]:1", "a b:1", "a/b:1"}) {
    EXPECT_FALSE(ParseAddress(text)) << text;
  }
  EXPECT_FALSE(ParseAddress(std::string_view("unix:a\0b", 8)));
}

TEST(AddressTest, RecognisesLocalAddresses) {
  for (const char* text : {"unix:/x", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(IsLocal(*ParseAddress(text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1", "localhost:1"}) {
    EXPECT_FALSE(IsLocal(*ParseAddress(text))) << text;
  }
}

}  // namespace
}  // namespace cella::http
