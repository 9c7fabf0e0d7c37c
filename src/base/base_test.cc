#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/output_cap.h"
#include "base/result.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/units.h"

#include <fcntl.h>

namespace cella {
namespace {

using namespace std::chrono_literals;

TEST(UnitsTest, ParsesSizesWithUnits) {
  EXPECT_EQ(ParseByteSize("1024").value(), 1024u);
  EXPECT_EQ(ParseByteSize("64k").value(), 65536u);
  EXPECT_EQ(ParseByteSize("1.5g").value(), 3221225472u / 2);
  EXPECT_EQ(ParseByteSize("512MiB").value(), 512u << 20);
  EXPECT_EQ(ParseByteSize("1GB").value(), 1u << 30);
}

TEST(UnitsTest, RejectsMalformedSizeAndQuotesIt) {
  for (const char* bad : {"", "0", "-1", "12q", "g", "1 g", "1e3", "inf", "nan", "0x10", "1..5", "99999999999t"}) {
    auto size = ParseByteSize(bad);
    ASSERT_FALSE(size.has_value()) << bad;
    EXPECT_EQ(size.error().code, ErrorCode::kInvalid);
    EXPECT_NE(size.error().message.find(std::string("'") + bad + "'"), std::string::npos) << size.error().message;
  }
}

TEST(UnitsTest, ParsesDurationsWithSecondsAsDefaultUnit) {
  EXPECT_EQ(ParseDuration("60").value(), 60s);
  EXPECT_EQ(ParseDuration("1.5").value(), 1500ms);
  EXPECT_EQ(ParseDuration("500ms").value(), 500ms);
  EXPECT_EQ(ParseDuration("10m").value(), 10min);
  for (const char* bad : {"", "0", "-5", "5x", "1e9", "400d"}) EXPECT_FALSE(ParseDuration(bad).has_value()) << bad;
}

TEST(UnitsTest, RejectsNonPositiveCountsAndCpus) {
  EXPECT_EQ(ParseCount("128").value(), 128u);
  for (const char* bad : {"0", "-1", "1.5", "x", "", "99999999999"}) EXPECT_FALSE(ParseCount(bad).has_value()) << bad;
  EXPECT_DOUBLE_EQ(ParseCpus("1.5").value(), 1.5);
  for (const char* bad : {"0", "-1", "x", "5000"}) EXPECT_FALSE(ParseCpus(bad).has_value()) << bad;
}

TEST(UnitsTest, FormatsSizesAndDurations) {
  EXPECT_EQ(FormatByteSize(1u << 30), "1g");
  EXPECT_EQ(FormatByteSize(1536), "1.5k");
  EXPECT_EQ(FormatByteSize(17), "17 bytes");
  EXPECT_EQ(FormatDuration(60s), "60s");
  EXPECT_EQ(FormatDuration(90min), "90m");
  EXPECT_EQ(FormatDuration(250ms), "250ms");
}

TEST(TextTest, ReplacesMalformedUtf8) {
  EXPECT_EQ(ToUtf8Lossy("plain"), "plain");
  EXPECT_EQ(ToUtf8Lossy("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(ToUtf8Lossy("a\xff"
                        "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(ToUtf8Lossy("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "surrogates are not characters";
  EXPECT_EQ(ToUtf8Lossy("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong forms hide slashes";
  EXPECT_EQ(ToUtf8Lossy("x\xe2\x82"), "x\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(TextTest, KeepsPartialCharacterForTheNextChunk) {
  EXPECT_EQ(IncompleteUtf8Tail("abc"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xe2\x82"), 2u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xe2\x82\xac"), 0u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xf0\x9f\x98"), 3u);
  EXPECT_EQ(IncompleteUtf8Tail("ab\xff"), 0u) << "never the start of anything";
  EXPECT_EQ(IncompleteUtf8Tail(""), 0u);
}

TEST(OutputCapTest, KeepsOutputWithinTheCap) {
  OutputCap cap(10);
  std::string all(cap.Feed("12345678"));
  OutputCap::Rest rest = cap.Finish();
  EXPECT_EQ(all + rest.tail, "12345678");
  EXPECT_EQ(rest.dropped, 0u);
}

TEST(OutputCapTest, KeepsHeadAndTailAndCountsDroppedBytes) {
  OutputCap cap(10);
  std::string head;
  for (int i = 0; i < 1000; ++i) head += cap.Feed("abcdefghij");
  head += cap.Feed("THE_END");
  OutputCap::Rest rest = cap.Finish();
  EXPECT_EQ(head, "abcde");
  EXPECT_EQ(rest.tail, "E_END");
  EXPECT_EQ(rest.dropped + head.size() + rest.tail.size(), 10007u);
}

TEST(ResultTest, AddsContext) {
  auto inner = []() -> Status { return SysErr(ENOENT, "open '{}'", "x"); };
  auto outer = [&]() -> Status {
    TRY_VOID(inner());
    return {};
  };
  auto result = outer();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().sys_errno, ENOENT);
  EXPECT_EQ(std::move(result.error()).WithContext("loading").message, "loading: open 'x': No such file or directory");
}

TEST(UniqueFdTest, ClosesOnceAndMoves) {
  int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_EQ(second.get(), raw);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(Base64Test, DecodesTextWithAndWithoutPadding) {
  EXPECT_EQ(DecodeBase64("aGVsbG8=\n").value_or(""), "hello");
  EXPECT_EQ(DecodeBase64("aGVs\nbG8").value_or(""), "hello");
  EXPECT_FALSE(DecodeBase64("a*b"));
}

TEST(Base64Test, RoundTripsEveryLength) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(DecodeBase64Strictly(EncodeBase64(bytes)).value_or("none"), bytes) << i;
    bytes += static_cast<char>(i * 7);
  }
  EXPECT_EQ(EncodeBase64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(EncodeBase64("foob"), "Zm9vYg==");
}

TEST(Base64Test, StrictlyAcceptsOnlyWhatItWrites) {
  for (const char* text : {"a", "Zm9vYg=", "Zm9v\n", "Zm 9", "====", "Z===", "Zm9vYh==", "Zg==Zg=="}) {
    EXPECT_FALSE(DecodeBase64Strictly(text)) << text;
  }
}

}  // namespace
}  // namespace cella
