#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "async/caught.h"
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

TEST(LoopTest, RunReturnsTheTasksValue) { EXPECT_EQ(Loop().Run(Answer()), 42); }

TEST(DeadlineTest, LateTaskIsCancelledAndJoinedBeforeTheDeadlineReturns) {
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

TEST(DeadlineTest, EarlyTaskReturnsItsValue) {
  auto main = []() -> Task<void> {
    auto result = co_await WithDeadline(Answer(), Clock::now() + 1h);
    EXPECT_EQ(result, 42);
  };
  Loop().Run(main());
}

TEST(TaskGroupTest, JoinWaitsForAllTasksAndCancelEndsThem) {
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

TEST(TaskGroupTest, CancellingJoinEndsTheTasks) {
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

TEST(EventTest, WakesCurrentAndLaterWaiters) {
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

TEST(DescriptorTest, WriteBeyondPipeCapacityWaitsForTheReader) {
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

TEST(DescriptorTest, SharedFileDescriptionStaysBlocking) {
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

TEST(DescriptorTest, RegularFilesAreReadWithoutWaiting) {
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

TEST(ReadySetTest, ReturnsKeysOfReadableDescriptors) {
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

TEST(ReadySetTest, ReturnsEmptyAtDeadlineAndOnWake) {
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

// As if other processes of this user had taken all of the kernel's watches.
void RefuseWatches() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(code), .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(9);
}

// 0: everything that waits for a descriptor goes on without the kernel's watches.
int WaitWithoutWatches() {
  alarm(20);
  Loop loop;
  // The loop's own watches are there before any guest.
  (void)loop.Run(SleepUntil(Clock::now()));
  RefuseWatches();
  Pipe pipe = MakePipe(), other = MakePipe();
  epoll_event event = {};
  UniqueFd epoll(epoll_create1(0));
  // The attack works: this is what threw an exception through every task.
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, pipe.read.get(), &event) == 0 || errno != ENOSPC) return 1;
  auto main = [&]() -> Task<int> {
    Descriptor reader(loop, std::move(pipe.read), Sharing::kOurs);
    auto never = co_await WithDeadline(reader.Readable(), Clock::now() + std::chrono::milliseconds(20));
    if (never) co_return 2;
    if (write(pipe.write.get(), "x", 1) != 1) co_return 3;
    std::array<char, 8> buffer;
    auto read = co_await reader.ReadSome(buffer);
    if (!read || *read != 1) co_return 4;
    auto set = ReadySet::Create(loop);
    if (!set || !set->Add(other.read.get(), 7)) co_return 5;
    set->SetDeadline(Clock::now() + std::chrono::milliseconds(20));
    auto keys = co_await set->Wait();
    if (!keys.empty()) co_return 6;
    set->SetDeadline(TimePoint::max());
    if (write(other.write.get(), "x", 1) != 1) co_return 7;
    do {
      keys = co_await set->Wait();
    } while (keys.empty());
    if (keys.size() != 1 || keys[0] != 7) co_return 8;
    set->Remove(other.read.get());
    set->Wake();
    keys = co_await set->Wait();
    co_return keys.empty() ? 0 : 10;
  };
  return loop.Run(main());
}

TEST(WatchesTest, WaitsGoOnWhereTheKernelRefusesWatches) {
  const pid_t child = fork();
  if (child == 0) _exit(WaitWithoutWatches());
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CaughtTest, ExceptionsBecomeErrorsAndValuesStay) {
  Loop loop;
  auto main = [&]() -> Task<void> {
    auto throws = []() -> Task<int> {
      throw std::runtime_error("third party");
      co_return 1;
    };
    auto fails = []() -> Task<Status> { co_return Err(ErrorCode::kPermission, "no"); };
    auto thrown = co_await Caught(throws());
    EXPECT_EQ(thrown.error().message, "third party");
    auto failed = co_await Caught(fails());
    EXPECT_EQ(failed.error().code, ErrorCode::kPermission);
    auto value = co_await Caught(Answer());
    EXPECT_EQ(value.value(), 42);
    TaskGroup group(loop);
    auto nothing = [](Task<int> task) -> Task<void> { (void)co_await std::move(task); };
    group.Add(nothing(throws()));
    auto settled = co_await async::Caught(group.Join());
    EXPECT_EQ(settled.error().message, "third party");
  };
  loop.Run(main());
}

TEST(GateTest, AdmitsUpToItsLimitInOrder) {
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

TEST(GateTest, CancelledWaiterReleasesItsPlace) {
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
