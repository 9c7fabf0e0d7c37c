// Groups on the running kernel; skipped where none can be made.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "os/cgroup.h"
#include "os/cgroup_tree.h"
#include "os/io.h"

namespace cella::os {
namespace {

using internal::CgroupTree;

constexpr uint64_t kMiB = 1 << 20;

// Starts `body` as a member of `group`, which it is when this returns; its return value is the exit code.
pid_t Spawn(const Cgroup& group, const std::function<int()>& body) {
  Pipe joined = MakePipe().value();
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (group.v2_dir() >= 0) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(group.v2_dir());
  }
  const pid_t pid = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof args));
  if (pid != 0) {
    joined.write.Reset();
    char byte;
    (void)!read(joined.read.get(), &byte, 1);
    return pid;
  }
  for (const UniqueFd& tasks : group.v1_tasks()) {
    if (write(tasks.get(), "0", 1) != 1) _exit(98);
  }
  joined.write.Reset();
  _exit(body());
}

int Wait(pid_t pid) {
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

bool Exists(const CgroupTree& tree, const std::string& name) {
  for (const auto& hierarchy : tree.hierarchies) {
    if (faccessat(hierarchy.base.get(), name.c_str(), F_OK, 0) == 0) return true;
  }
  return false;
}

class CgroupOnTheKernel : public testing::Test {
 protected:
  void SetUp() override {
    if (!host_.has_memory() || !host_.has_pids()) GTEST_SKIP() << host_.reason();
  }
  Cgroup Make(const CgroupLimits& limits) {
    auto group = host_.Create("test", limits);
    if (!group) ADD_FAILURE() << group.error().message;
    return group ? std::move(*group) : Cgroup();
  }
  const CgroupHost host_ = CgroupHost::Probe();
};

TEST_F(CgroupOnTheKernel, ChildJoinsAndGroupIsRemovedWithItsOwner) {
  std::string name;
  {
    Cgroup group = Make({.memory = 64 * kMiB, .pids = 4, .cpus = host_.has_cpu() ? std::optional(1.0) : std::nullopt});
    ASSERT_TRUE(group);
    name = group.name();
    EXPECT_TRUE(group.Empty());
    const pid_t pid = Spawn(group, [] { return pause(); });
    const std::string own = fmt::format("grep -q {} /proc/{}/cgroup", name, pid);
    EXPECT_EQ(system(own.c_str()), 0);
    group = Cgroup();
    EXPECT_TRUE(WIFSIGNALED(Wait(pid)));
  }
  EXPECT_NE(system(fmt::format("find /sys/fs/cgroup -name {} | grep -q .", name).c_str()), 0);
}

TEST_F(CgroupOnTheKernel, UsageCountsCpuAndMemory) {
  Cgroup group = Make({.memory = 256 * kMiB});
  const pid_t pid = Spawn(group, [] {
    std::vector<char> block(32 * kMiB, 'x');
    volatile char* bytes = block.data();
    const auto end = clock() + CLOCKS_PER_SEC / 20;
    for (size_t i = 0; clock() < end; i = (i + 4096) % block.size()) bytes[i] = 1;
    return 0;
  });
  EXPECT_EQ(Wait(pid), 0);
  const auto usage = group.Usage();
  ASSERT_TRUE(usage);
  if (usage->cpu) EXPECT_GT(*usage->cpu, std::chrono::milliseconds(30));
  if (usage->peak_memory) EXPECT_GT(*usage->peak_memory, 32 * kMiB);
  EXPECT_EQ(usage->oom_kills.value_or(0), 0u);
  EXPECT_EQ(usage->pids_refused.value_or(0), 0u);
}

TEST_F(CgroupOnTheKernel, MemoryLimitKills) {
  Cgroup group = Make({.memory = 16 * kMiB});
  const pid_t pid = Spawn(group, [] {
    void* block = mmap(nullptr, 256 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 1, 256 * kMiB);
    return 0;
  });
  const int status = Wait(pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto usage = group.Usage();
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->oom_kills, 1u);
  EXPECT_LE(usage->peak_memory.value_or(0), 16 * kMiB);
}

TEST_F(CgroupOnTheKernel, PidsLimitRefusesForks) {
  Cgroup group = Make({.pids = 2});
  const pid_t pid = Spawn(group, [] {
    int born = 0;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      if (child == 0) return pause();
      if (child > 0) ++born;
    }
    return born;
  });
  const int status = Wait(pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(group.Usage()->pids_refused, 3u);
  EXPECT_FALSE(group.Empty());
  EXPECT_TRUE(group.Kill());
  EXPECT_TRUE(group.Empty());
}

TEST_F(CgroupOnTheKernel, LimitsCanBeRaisedAndLowered) {
  Cgroup group = Make({.memory = 64 * kMiB, .pids = 8});
  EXPECT_TRUE(group.SetLimits({.memory = 128 * kMiB, .pids = 16}));
  EXPECT_TRUE(group.SetLimits({.memory = 32 * kMiB}));
  EXPECT_TRUE(group.SetLimits({}));
  const auto last = group.SetLimits({.memory = 64 * kMiB, .pids = 2});
  EXPECT_TRUE(last) << last.error().message;
}

TEST_F(CgroupOnTheKernel, KillEndsAForkBomb) {
  Cgroup group = Make({.pids = 64});
  const pid_t pid = Spawn(group, [] {
    const pid_t first = getpid();
    for (;;) {
      const pid_t child = fork();
      if (child > 0 && getpid() != first) _exit(0);
    }
    return 0;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto killed = group.Kill();
  EXPECT_TRUE(killed) << killed.error().message;
  EXPECT_TRUE(group.Empty());
  EXPECT_TRUE(WIFSIGNALED(Wait(pid)));
  // Orphaned zombies count until somebody reaps them, hence the patience.
  const pid_t next = Spawn(group, [] {
    for (int i = 0; i < 2000; ++i) {
      if (fork() >= 0) return 0;
      usleep(1000);
    }
    return 1;
  });
  EXPECT_EQ(Wait(next), 0) << "the limit was not restored";
}

TEST_F(CgroupOnTheKernel, SweepRemovesGroupsOfAKilledSupervisor) {
  int name_pipe[2];
  ASSERT_EQ(pipe2(name_pipe, O_CLOEXEC), 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    const CgroupHost host = CgroupHost::Probe();
    auto group = host.Create("left", {.pids = 8});
    if (!group) _exit(1);
    (void)Spawn(*group, [] { return pause(); });
    (void)!write(name_pipe[1], group->name().data(), group->name().size());
    (void)!pause();
    _exit(0);
  }
  char buffer[256];
  const ssize_t size = read(name_pipe[0], buffer, sizeof buffer);
  close(name_pipe[0]);
  close(name_pipe[1]);
  ASSERT_GT(size, 0);
  const std::string name(buffer, static_cast<size_t>(size));
  const std::string look = fmt::format("find /sys/fs/cgroup -name {} | grep -q .", name);
  host_.Sweep();
  EXPECT_EQ(system(look.c_str()), 0) << "a live supervisor's group was swept";
  kill(supervisor, SIGKILL);
  Wait(supervisor);
  EXPECT_GE(host_.Sweep(), 1u);
  EXPECT_NE(system(look.c_str()), 0);
}

TEST_F(CgroupOnTheKernel, ConcurrentSupervisorsCreateAndSweep) {
  std::vector<pid_t> supervisors;
  for (int i = 0; i < 40; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      const CgroupHost host = CgroupHost::Probe();
      for (int round = 0; round < 5; ++round) {
        host.Sweep();
        auto group = host.Create(fmt::format("r{}", round), {.memory = 64 * kMiB, .pids = 4});
        if (!group) _exit(1);
        host.Sweep();
        const pid_t guest = Spawn(*group, [] { return 7; });
        int status = 0;
        waitpid(guest, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) _exit(2);
        if (i % 4 == 0 && round == 4) kill(getpid(), SIGKILL);
      }
      _exit(0);
    }
    supervisors.push_back(pid);
  }
  for (size_t i = 0; i < supervisors.size(); ++i) {
    const int status = Wait(supervisors[i]);
    EXPECT_TRUE(i % 4 == 0 ? WIFSIGNALED(status) : status == 0) << i << ": " << status;
  }
  host_.Sweep();
  for (const pid_t pid : supervisors) {
    EXPECT_NE(system(fmt::format("find /sys/fs/cgroup -name 'cella-*-{}-*' | grep -q .", pid).c_str()), 0);
  }
}

TEST_F(CgroupOnTheKernel, OrdinaryUserHasNoCgroups) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become an ordinary user";
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(99);
    const CgroupHost host = CgroupHost::Probe();
    _exit(host.version() == CgroupVersion::kNone && !host.reason().empty() ? 0 : 1);
  }
  EXPECT_EQ(Wait(pid), 0);
}

// The v2 calls work in a tree without controllers too, so that they are tried even where the limits live in v1.
TEST(CgroupV2OnTheKernel, BirthKillAndRemoval) {
  auto tree = std::make_shared<CgroupTree>();
  for (const char* point : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    UniqueFd base(open(point, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!base || faccessat(base.get(), "cgroup.controllers", F_OK, 0) != 0 ||
        faccessat(base.get(), ".", W_OK, AT_EACCESS) != 0) {
      continue;
    }
    tree->version = CgroupVersion::kV2;
    tree->hierarchies.push_back({.base = std::move(base), .path = point});
    break;
  }
  if (tree->version == CgroupVersion::kNone) GTEST_SKIP() << "no writable cgroup v2 tree";
  tree->owner = CurrentOwner();
  const CgroupHost host(tree);
  auto group = host.Create("v2", {});
  ASSERT_TRUE(group) << group.error().message;
  const pid_t pid = Spawn(*group, [] {
    (void)fork();
    return pause();
  });
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(group->Kill());
  EXPECT_TRUE(WIFSIGNALED(Wait(pid)));
  const auto usage = group->Usage();
  ASSERT_TRUE(usage);
  EXPECT_TRUE(usage->cpu);
  const std::string name = group->name();
  *group = Cgroup();
  EXPECT_FALSE(Exists(*tree, name));
}

}  // namespace
}  // namespace cella::os
