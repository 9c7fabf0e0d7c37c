#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/event.h"
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

}  // namespace
}  // namespace cella::async
