#include "executor/sandbox/marked_text.h"

#include <gtest/gtest.h>

namespace cella::executor {
namespace {

using namespace std::string_literals;

std::string Mark(uint64_t number) { return "\0cella t0 "s + std::to_string(number) + "\0"s; }

TEST(MarkedTextTest, TextWithoutMarksPassesWhole) {
  MarkedText text("t0");
  text.Feed("one\ntwo");
  EXPECT_EQ(text.Take(), "one\ntwo");
  EXPECT_EQ(text.stands_at(), 0u);
}

TEST(MarkedTextTest, TextStandsAtAMarkUntilItIsReleased) {
  MarkedText text("t0");
  text.Feed("a" + Mark(1) + "b" + Mark(2) + "c");
  EXPECT_EQ(text.Take(), "a");
  EXPECT_EQ(text.stands_at(), 1u);
  EXPECT_EQ(text.Take(), "");
  text.Release(1);
  EXPECT_EQ(text.stands_at(), 0u);
  EXPECT_EQ(text.reached(), 1u);
  EXPECT_EQ(text.Take(), "b");
  EXPECT_EQ(text.stands_at(), 2u);
  text.Release(2);
  EXPECT_EQ(text.Take(), "c");
}

TEST(MarkedTextTest, ReleasedMarksAreLeftOut) {
  MarkedText text("t0");
  text.Release(7);
  text.Feed("a" + Mark(6) + Mark(7) + "b");
  EXPECT_EQ(text.Take(), "ab");
  EXPECT_EQ(text.reached(), 7u);
}

TEST(MarkedTextTest, MarkCutBetweenReadsIsFound) {
  const std::string whole = "a\0b"s + Mark(12) + "c";
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    MarkedText text("t0");
    text.Feed(whole.substr(0, cut));
    std::string taken = text.Take();
    text.Feed(whole.substr(cut));
    taken += text.Take();
    EXPECT_EQ(taken, "a\0b"s) << cut;
    EXPECT_EQ(text.stands_at(), 12u) << cut;
    text.Release(12);
    EXPECT_EQ(text.Take(), "c") << cut;
  }
}

TEST(MarkedTextTest, OtherTokensAndMalformedNumbersAreText) {
  for (const std::string& forged : {"\0cella t1 1\0"s, "\0cella t0 x\0"s, "\0cella t0 1x"s, "\0cella t0 0\0"s,
                                    "\0cella t0 99999999999999999999999"s, "\0\0\0"s}) {
    MarkedText text("t0");
    text.Feed("a" + forged + "z");
    EXPECT_EQ(text.Take(), "a" + forged + "z");
    EXPECT_EQ(text.stands_at(), 0u);
  }
}

TEST(MarkedTextTest, RestIsEverythingWithoutMarks) {
  MarkedText text("t0");
  text.Feed("a" + Mark(1) + "b" + Mark(2) + "c\0cella t0 3"s);
  EXPECT_EQ(text.Take(), "a");
  EXPECT_EQ(text.Rest(), "bc\0cella t0 3"s);
}

}  // namespace
}  // namespace cella::executor
