#include "http/target.h"

#include <gmock/gmock.h>

namespace cella::http {
namespace {

using testing::ElementsAre;

TEST(TargetTest, DecodesSegmentsAndParameters) {
  Target target;
  ASSERT_TRUE(target.Parse("/v1/a%20b/%C3%A9?x=1&y=a+b%26c&&flag&x=2"));
  EXPECT_EQ(target.path(), "/v1/a%20b/%C3%A9");
  EXPECT_THAT(target.segments(), ElementsAre("v1", "a b", "é"));
  EXPECT_EQ(target.parameters().size(), 4u);
  EXPECT_EQ(target.parameter("x"), "1");
  EXPECT_EQ(target.parameter("y"), "a b&c");
  EXPECT_EQ(target.parameter("flag"), "");
  EXPECT_EQ(target.parameter("z"), std::nullopt);
  EXPECT_FALSE(target.has_trailing_slash());
}

TEST(TargetTest, ParsesRepeatedly) {
  Target target;
  ASSERT_TRUE(target.Parse("/a/b%2fc/?x=1"));
  EXPECT_TRUE(target.has_trailing_slash());
  EXPECT_TRUE(target.has_escaped_slash());
  ASSERT_TRUE(target.Parse("/"));
  EXPECT_TRUE(target.segments().empty());
  EXPECT_TRUE(target.parameters().empty());
  EXPECT_FALSE(target.has_trailing_slash());
  EXPECT_FALSE(target.has_escaped_slash());
}

TEST(TargetTest, AcceptsTheAbsoluteForm) {
  Target target;
  ASSERT_TRUE(target.Parse("http://host:80/a/b?c=d"));
  EXPECT_EQ(target.path(), "/a/b");
  EXPECT_EQ(target.parameter("c"), "d");
}

TEST(TargetTest, RestContainsDecodedSlashes) {
  Target target;
  ASSERT_TRUE(target.Parse("/files/a/b%2Fc/d%2520e"));
  EXPECT_EQ(target.Rest(1), "a/b/c/d%20e");  // decoded once, not twice
  EXPECT_EQ(target.Rest(4), "");
}

TEST(TargetTest, ParameterMayContainWhatAPathMayNot) {
  Target target;
  ASSERT_TRUE(target.Parse("/files?path=..%2Fa%5Cb%0A"));
  EXPECT_EQ(target.parameter("path"), "../a\\b\n");
}

class RefusedTarget : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Target, RefusedTarget,
                         testing::Values("", "a", "*", "?a", "//", "/a//b", "/a//", "//a", "/.", "/..", "/../a",
                                         "/a/..", "/a/./b", "/%2e%2e/a", "/%2E%2e", "/.%2e", "/%2e", "/a%2f..%2fb",
                                         "/a%2f%2e%2e", "/..%2fa", "/%2fa", "/a%2f", "/a%2f%2fb", "/a%00b", "/a%0ab",
                                         "/a%7f", "/a\\b", "/a%5cb", "/..%5c", "/a%", "/a%2", "/a%zz", "/a%-1",
                                         "/a%c0%af", "/%c0%ae%c0%ae", "/%e0%80%af", "/%f0%80%80%af", "/%ed%a0%80",
                                         "/%f4%90%80%80", "/%ff", "/%c3", "/a?x=%", "/a?x=%00", "/a?x=%ff", "/a#b",
                                         "http://host", "http://host?x", "https://host/../a", "ftp://host/a"));

TEST_P(RefusedTarget, IsRejected) { EXPECT_FALSE(Target().Parse(GetParam())); }

TEST(TargetTest, BoundsSegmentsAndParameters) {
  std::string path, query = "/?";
  for (int i = 0; i < 129; ++i) {
    path += "/a";
    query += "a&";
  }
  EXPECT_FALSE(Target().Parse(path));
  EXPECT_FALSE(Target().Parse(query));
}

}  // namespace
}  // namespace cella::http
