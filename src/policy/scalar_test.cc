#include "policy/scalar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "policy/names.h"

namespace cella::policy {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(ScalarTest, NumbersAndTextsAreEquivalent) {
  EXPECT_EQ(ReadSize(int64_t{1024}).value(), 1024u);
  EXPECT_EQ(ReadSize(uint64_t{1024}).value(), 1024u);
  EXPECT_EQ(ReadSize(1e9).value(), 1'000'000'000u);
  EXPECT_EQ(ReadSize("1k").value(), 1024u);
  EXPECT_EQ(ReadDuration(int64_t{60}).value(), 60s);
  EXPECT_EQ(ReadDuration(0.5).value(), 500ms);
  EXPECT_EQ(ReadDuration("500ms").value(), 500ms);
  EXPECT_EQ(ReadCount(128.0).value(), 128u);
  EXPECT_EQ(ReadCountOrZero(int64_t{0}).value(), 0u);
  EXPECT_DOUBLE_EQ(ReadCpus(1.5).value(), 1.5);
  EXPECT_DOUBLE_EQ(ReadRate(int64_t{20}).value(), 20);
}

TEST(ScalarTest, RejectsInvalidValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string long_text(100'000, '1');
  const Scalar bad[] = {std::monostate(), true, int64_t{0}, int64_t{-1}, -0.5, 1e300, inf, nan, "", "x", "1e3",
                        long_text};
  for (const Scalar& value : bad) {
    EXPECT_FALSE(ReadSize(value)) << value.index();
    EXPECT_FALSE(ReadDuration(value)) << value.index();
    EXPECT_FALSE(ReadCount(value)) << value.index();
    EXPECT_FALSE(ReadCpus(value)) << value.index();
    EXPECT_FALSE(ReadRate(value)) << value.index();
  }
  EXPECT_FALSE(ReadSize(1.5));
  EXPECT_FALSE(ReadCount(1.5));
  EXPECT_FALSE(ReadSize(std::numeric_limits<uint64_t>::max()));
  EXPECT_LT(ReadSize(std::string_view(long_text)).error().message.size(), 300u);
}

TEST(NamesTest, SuggestsNearKeysButNotDistantOnes) {
  const std::vector<std::string_view> known = {"memory", "timeout", "max_body"};
  EXPECT_EQ(Nearest("memry", known), "memory");
  EXPECT_EQ(Nearest("Memory", known), "memory");
  EXPECT_EQ(Nearest("max-body", known), "max_body");
  EXPECT_EQ(Nearest("time_out", known), "timeout");
  EXPECT_EQ(Nearest("zebra", known), "");
  EXPECT_EQ(Nearest("", known), "");
  EXPECT_EQ(Nearest(std::string(1'000'000, 'm'), known), "");
  EXPECT_THAT(UnknownKey("zebra", known), HasSubstr("known are memory, timeout, max_body"));
}

TEST(NamesTest, QuotesLongAndInvalidTextShortened) {
  EXPECT_EQ(Shown("abc"), "abc");
  EXPECT_EQ(Shown(std::string(200, 'a')), std::string(80, 'a') + "…");
  EXPECT_EQ(Shown(std::string(79, 'a') + "é" + "b"), std::string(79, 'a') + "…");
  EXPECT_EQ(Shown("\xff"), "\uFFFD");
}

TEST(NamesTest, AcceptsOnlyPlainNames) {
  for (const char* good : {"a", "alice", "ci-2", "a.b_c", "3"}) EXPECT_TRUE(IsName(good)) << good;
  for (const char* bad : {"", ".", "-a", "a b", "a/b", "a:b", "ä", "a\n"}) EXPECT_FALSE(IsName(bad)) << bad;
  EXPECT_TRUE(IsName(std::string(64, 'a')));
  EXPECT_FALSE(IsName(std::string(65, 'a')));
  for (const char* good : {"A", "_x1", "LANG"}) EXPECT_TRUE(IsVariableName(good)) << good;
  for (const char* bad : {"", "1A", "A=B", "A-B", "A B"}) EXPECT_FALSE(IsVariableName(bad)) << bad;
  for (const char* good : {"numpy", "os.path", "_a.b1"}) EXPECT_TRUE(IsModuleName(good)) << good;
  for (const char* bad : {"", ".", "a.", ".a", "a..b", "a-b", "a;import os", "a b"})
    EXPECT_FALSE(IsModuleName(bad)) << bad;
}

}  // namespace
}  // namespace cella::policy
