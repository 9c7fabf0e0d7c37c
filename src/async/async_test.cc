#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/event.h"
#include "async/gate.h"
#include "async/ready_set.h"
#include "async/task_group.h"

namespace cella::async {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  UniqueFd read, write;
};

Pipe MakePipe() {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Task<int> Answer() { co_return 42; }

TEST(LoopTest, RunReturnsTheValueOfTheTask) { EXPECT_EQ(Loop().Run(Answer()), 42); }

TEST(DeadlineTest, ALateTaskIsCancelledAndHasEndedWhenTheDeadlineReturns) {
  Loop loop;
  bool ended = false;
  auto slow = [&]() -> Task<int> {
    bool slept = co_await SleepUntil(Clock::now() + 1h);
    ended = true;
    co_return slept ? 1 : 0;
  };
  auto main = [&]() -> Task<void> {
    auto result = co_await WithDeadline(slow(), Clock::now() + 1ms);
    EXPECT_FALSE(result.has_value());
    EXPECT_TRUE(ended);
  };
  loop.Run(main());
}

TEST(DeadlineTest, AnEarlyTaskKeepsItsValue) {
  auto main = []() -> Task<void> {
    auto result = co_await WithDeadline(Answer(), Clock::now() + 1h);
    EXPECT_EQ(result, 42);
  };
  Loop().Run(main());
}

TEST(TaskGroupTest, JoinWaitsForAllAndCancelEndsThem) {
  Loop loop;
  int ended = 0;
  auto wait = [&]() -> Task<void> {
    (void)co_await SleepUntil(Clock::now() + 1h);
    ++ended;
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    for (int i = 0; i < 10; ++i) group.Add(wait());
    (void)co_await SleepUntil(Clock::now() + 1ms);
    EXPECT_EQ(ended, 0);
    group.Cancel();
    co_await group.Join();
    EXPECT_EQ(ended, 10);
  };
  loop.Run(main());
}

TEST(TaskGroupTest, CancellingAJoinEndsTheTasksOfTheGroup) {
  Loop loop;
  bool ended = false;
  auto wait = [&]() -> Task<void> {
    (void)co_await SleepUntil(Clock::now() + 1h);
    ended = true;
  };
  auto grouped = [&]() -> Task<int> {
    TaskGroup group(loop);
    group.Add(wait());
    co_await group.Join();
    co_return 1;
  };
  auto main = [&]() -> Task<void> {
    (void)co_await WithDeadline(grouped(), Clock::now() + 1ms);
    EXPECT_TRUE(ended);
  };
  loop.Run(main());
}

TEST(EventTest, WakesThoseWhoWaitAndThoseWhoComeLater) {
  Loop loop;
  Event event(loop);
  int woken = 0;
  auto waiter = [&]() -> Task<void> {
    bool set = co_await event.Wait();
    woken += set ? 1 : 0;
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    group.Add(waiter());
    group.Add(waiter());
    (void)co_await SleepUntil(Clock::now() + 1ms);
    event.Set();
    group.Add(waiter());
    co_await group.Join();
    EXPECT_EQ(woken, 3);
  };
  loop.Run(main());
}

TEST(DescriptorTest, WritingMoreThanAPipeHoldsWaitsForTheReader) {
  Loop loop;
  Pipe pipe = MakePipe();
  Descriptor reader(loop, std::move(pipe.read), Sharing::kOurs), writer(loop, std::move(pipe.write), Sharing::kOurs);
  const std::string sent(1 << 20, 'x');
  std::string got;
  auto write = [&]() -> Task<void> {
    auto status = co_await writer.WriteAll(sent);
    EXPECT_TRUE(status.has_value());
    writer.Close();
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    group.Add(write());
    for (;;) {
      char buffer[5000];
      auto n = co_await reader.ReadSome(buffer);
      if (!n || *n == 0) break;
      got.append(buffer, *n);
    }
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_EQ(got, sent);
}

TEST(DescriptorTest, TheSharedDescriptionStaysBlocking) {
  Loop loop;
  Pipe pipe = MakePipe();
  int kept = fcntl(pipe.read.get(), F_DUPFD_CLOEXEC, 3);
  UniqueFd keep(kept);
  Descriptor reader(loop, std::move(pipe.read), Sharing::kShared);
  ASSERT_EQ(write(pipe.write.get(), "x", 1), 1);
  auto main = [&]() -> Task<void> {
    char buffer[10];
    auto n = co_await reader.ReadSome(buffer);
    EXPECT_TRUE(n.has_value() && *n == 1);
  };
  loop.Run(main());
  EXPECT_EQ(fcntl(kept, F_GETFL) & O_NONBLOCK, 0);
}

TEST(DescriptorTest, RegularFilesNeedNoWaiting) {
  Loop loop;
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Descriptor reader(loop, std::move(file), Sharing::kShared);
  auto main = [&]() -> Task<void> {
    char buffer[4];
    auto n = co_await reader.ReadSome(buffer);
    EXPECT_TRUE(n.has_value() && *n == 4);
  };
  loop.Run(main());
}

TEST(ReadySetTest, TellsWhatIsReadableByItsKey) {
  Loop loop;
  Pipe first = MakePipe(), second = MakePipe();
  ReadySet set = ReadySet::Create(loop).value();
  ASSERT_TRUE(set.Add(first.read.get(), 7));
  ASSERT_TRUE(set.Add(second.read.get(), 8));
  auto main = [&]() -> Task<void> {
    EXPECT_EQ(write(second.write.get(), "x", 1), 1);
    auto keys = co_await set.Wait();
    EXPECT_EQ(std::vector<int>(keys.begin(), keys.end()), std::vector<int>{8});
    EXPECT_EQ(write(first.write.get(), "x", 1), 1);
    keys = co_await set.Wait();
    EXPECT_EQ(keys.size(), 2u);  // the other one was not read: level-triggered
    set.Remove(second.read.get());
    keys = co_await set.Wait();
    EXPECT_EQ(std::vector<int>(keys.begin(), keys.end()), std::vector<int>{7});
  };
  loop.Run(main());
}

TEST(ReadySetTest, ReturnsEmptyAtTheDeadlineAndWhenWoken) {
  Loop loop;
  ReadySet set = ReadySet::Create(loop).value();
  auto main = [&]() -> Task<void> {
    const TimePoint deadline = Clock::now() + std::chrono::milliseconds(20);
    set.SetDeadline(deadline);
    auto keys = co_await set.Wait();
    EXPECT_TRUE(keys.empty());
    EXPECT_GE(Clock::now(), deadline);
    set.SetDeadline(TimePoint::max());
    set.Wake();
    keys = co_await set.Wait();
    EXPECT_TRUE(keys.empty());
    // A time that has passed is one that has come.
    set.SetDeadline(Clock::now() - std::chrono::seconds(1));
    keys = co_await set.Wait();
    EXPECT_TRUE(keys.empty());
  };
  loop.Run(main());
}

TEST(GateTest, LetsOnlySoManyThroughAndKeepsTheOrder) {
  Loop loop;
  Gate gate(loop, 2);
  int inside = 0, most = 0;
  std::vector<int> order;
  auto visitor = [&](int number) -> Task<void> {
    auto pass = co_await gate.Enter();
    order.push_back(number);
    most = std::max(most, ++inside);
    (void)co_await SleepUntil(Clock::now() + std::chrono::milliseconds(2));
    --inside;
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    for (int i = 0; i < 7; ++i) group.Add(visitor(i));
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_EQ(most, 2);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(gate.waiting(), 0u);
}

TEST(GateTest, SomebodyWhoIsCancelledWhileWaitingLosesNoPlace) {
  Loop loop;
  Gate gate(loop, 1);
  int entered = 0;
  auto visitor = [&]() -> Task<void> {
    auto pass = co_await gate.Enter();
    ++entered;
  };
  auto main = [&]() -> Task<void> {
    TaskGroup group(loop);
    {
      auto pass = co_await gate.Enter();
      group.Add(visitor());
      (void)co_await SleepUntil(Clock::now() + std::chrono::milliseconds(1));
      group.Cancel();
      (void)co_await SleepUntil(Clock::now() + std::chrono::milliseconds(1));
    }
    co_await group.Join();
    auto again = co_await gate.Enter();
  };
  loop.Run(main());
}

}  // namespace
}  // namespace cella::async
