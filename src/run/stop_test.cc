#include "run/stop.h"

#include <gtest/gtest.h>

namespace cella::run {
namespace {

TEST(StopSourceTest, FirstOfEqualStrengthStandsAndStrongerReplacesIt) {
  async::Loop loop;
  StopSource stop(loop);
  EXPECT_TRUE(stop.Request(StopReason::kInterrupt));
  EXPECT_TRUE(stop.Request(StopReason::kInterrupt));
  EXPECT_EQ(stop.interrupts(), 2u);
  EXPECT_FALSE(stop.token().ending());
  EXPECT_TRUE(stop.Request(StopReason::kCancel, "the caller"));
  EXPECT_FALSE(stop.Request(StopReason::kTimeout));
  EXPECT_FALSE(stop.Request(StopReason::kInterrupt));
  EXPECT_EQ(stop.reason(), StopReason::kCancel);
  EXPECT_EQ(stop.because(), "the caller");
  EXPECT_TRUE(stop.Request(StopReason::kMemory));
  EXPECT_EQ(stop.reason(), StopReason::kMemory);
}

TEST(StopSourceTest, ClosedSourceDropsRequests) {
  async::Loop loop;
  StopSource stop(loop);
  int calls = 0;
  stop.SetListener([&] { ++calls; });
  stop.Close();
  EXPECT_FALSE(stop.Request(StopReason::kInterrupt));
  EXPECT_FALSE(stop.Request(StopReason::kCancel));
  EXPECT_FALSE(stop.reason());
  EXPECT_EQ(calls, 0);
}

TEST(StopSourceTest, CancelIsAcceptedAfterTheCodeIsOverAndInterruptIsNot) {
  async::Loop loop;
  StopSource stop(loop);
  stop.CloseToInterrupts();
  EXPECT_FALSE(stop.Request(StopReason::kInterrupt));
  EXPECT_TRUE(stop.Request(StopReason::kCancel));
}

TEST(StopSourceTest, TokenWaitsForARequestThatEndsTheRun) {
  async::Loop loop;
  StopSource stop(loop);
  auto main = [&]() -> async::Task<bool> {
    stop.Request(StopReason::kInterrupt);
    stop.Request(StopReason::kClosing);
    bool ending = co_await stop.token().Ending();
    co_return ending;
  };
  EXPECT_TRUE(loop.Run(main()));
  auto empty = []() -> async::Task<bool> {
    const StopToken none;
    bool ending = co_await none.Ending();
    co_return ending;
  };
  EXPECT_FALSE(loop.Run(empty()));
}

}  // namespace
}  // namespace cella::run
