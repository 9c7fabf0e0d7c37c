#include "server/quota.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace cella::server {
namespace {

using namespace std::chrono_literals;

class QuotaTest : public ::testing::Test {
 protected:
  bool Request(Quota::TimePoint at) { return quota_.TakeRequest("a", at).has_value(); }

  QuotaLimits limits_;
  Quota quota_{[this](std::string_view client) { return client == "a" ? limits_ : QuotaLimits(); }};
  const Quota::TimePoint start_ = Quota::TimePoint() + 1000h;
};

TEST_F(QuotaTest, WithoutLimitsEverythingIsAdmitted) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Request(start_));
  EXPECT_TRUE(quota_.TakeSession("a", std::numeric_limits<uint64_t>::max()));
  EXPECT_TRUE(quota_.TakeRun("a"));
}

TEST_F(QuotaTest, DestroyedShareReleasesItsSession) {
  limits_.sessions = 2;
  auto one = quota_.TakeSession("a", 10);
  auto two = quota_.TakeSession("a", 10);
  auto three = quota_.TakeSession("a", 10);
  ASSERT_TRUE(one && two);
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().status, 429);
  EXPECT_GT(three.error().retry_after.value(), 0s);
  EXPECT_TRUE(quota_.TakeSession("b", 10)) << "others have their own";
  one->GiveBack();
  one->GiveBack();
  EXPECT_EQ(quota_.UseOf("a"), (Quota::Use{.sessions = 1, .memory = 10}));
  EXPECT_TRUE(quota_.TakeSession("a", 10));
}

TEST_F(QuotaTest, BuildsAtOnceAreCounted) {
  limits_.builds = 1;
  auto one = quota_.TakeBuild("a");
  ASSERT_TRUE(one);
  EXPECT_EQ(quota_.UseOf("a"), (Quota::Use{.builds = 1}));
  EXPECT_FALSE(quota_.TakeBuild("a"));
  EXPECT_TRUE(quota_.TakeBuild("b")) << "others have their own";
  one->GiveBack();
  EXPECT_TRUE(quota_.TakeBuild("a"));
}

TEST_F(QuotaTest, MovedShareIsReleasedOnce) {
  {
    Quota::Share outer;
    {
      auto inner = quota_.TakeSession("a", 7);
      outer = std::move(*inner);
      EXPECT_EQ(quota_.UseOf("a").sessions, 1u);
    }
    EXPECT_EQ(quota_.UseOf("a"), (Quota::Use{.sessions = 1, .memory = 7}));
    outer = quota_.TakeRun("a").value();
    EXPECT_EQ(quota_.UseOf("a"), (Quota::Use{.runs = 1})) << "what it held before is given back";
  }
  EXPECT_EQ(quota_.UseOf("a"), Quota::Use());
}

TEST_F(QuotaTest, MemoryOfSessionsIsSummed) {
  limits_.memory = 100;
  auto one = quota_.TakeSession("a", 60);
  ASSERT_TRUE(one);
  EXPECT_FALSE(quota_.TakeSession("a", 41));
  EXPECT_FALSE(quota_.TakeSession("a", std::numeric_limits<uint64_t>::max())) << "no wrap around";
  auto two = quota_.TakeSession("a", 40);
  ASSERT_TRUE(two);
  EXPECT_EQ(quota_.UseOf("a"), (Quota::Use{.sessions = 2, .memory = 100}));
  // The operator lowered it meanwhile: those who are in stay in, nobody else comes.
  limits_.memory = 50;
  EXPECT_FALSE(quota_.TakeSession("a", 1));
  EXPECT_EQ(quota_.UseOf("a").sessions, 2u);
}

TEST_F(QuotaTest, ConcurrentRunsAreCounted) {
  limits_.concurrent_runs = 1;
  auto one = quota_.TakeRun("a");
  ASSERT_TRUE(one);
  auto two = quota_.TakeRun("a");
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().status, 429);
  one->GiveBack();
  EXPECT_TRUE(quota_.TakeRun("a"));
}

TEST_F(QuotaTest, AdmitsABurstThenLimitsTheRate) {
  limits_.requests_per_second = 10;
  limits_.burst = 3;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Request(start_));
  auto refused = quota_.TakeRequest("a", start_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_EQ(refused.error().retry_after, 100ms);
  EXPECT_FALSE(Request(start_ + 99ms));
  EXPECT_TRUE(Request(start_ + 100ms)) << "whoever waits as told is let in";
  EXPECT_FALSE(Request(start_ + 100ms));
  // A long pause gives the burst and not more.
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += Request(start_ + 10h) ? 1 : 0;
  EXPECT_EQ(passed, 3);
  // Over a while it is the rate.
  passed = 0;
  for (int ms = 0; ms < 10'000; ++ms) passed += Request(start_ + 20h + std::chrono::milliseconds(ms)) ? 1 : 0;
  EXPECT_NEAR(passed, 3 + 100, 1);
}

TEST_F(QuotaTest, DefaultBurstIsOneSecondOfRequests) {
  limits_.requests_per_second = 2.5;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Request(start_));
  EXPECT_FALSE(Request(start_));
  limits_.requests_per_second = 0.1;
  EXPECT_TRUE(Request(start_ + 10h));
  auto refused = quota_.TakeRequest("a", start_ + 10h);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after, 10s);
}

TEST_F(QuotaTest, OlderTimestampChangesNothing) {
  limits_.requests_per_second = 1;
  limits_.burst = 2;
  EXPECT_TRUE(Request(start_));
  EXPECT_TRUE(Request(start_ - 5h));
  EXPECT_FALSE(Request(start_ - 10h));
  EXPECT_FALSE(Request(start_ + 500ms));
  EXPECT_TRUE(Request(start_ + 1s));
}

}  // namespace
}  // namespace cella::server
