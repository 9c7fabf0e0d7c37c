// The logic against plain directories: a pretended kernel fills each new group with control files.
#include "os/cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "os/cgroup_tree.h"

namespace cella::os {
namespace {

namespace fs = std::filesystem;
using internal::FormatGroupName;
using testing::HasSubstr;

std::set<std::string> g_files;  // what the pretended kernel puts into a new group
int g_busy_removals = 0;        // how many removals it refuses first

const CgroupDirectoryCalls kPretendedKernel = {
    .make =
        [](int parent, const char* name) {
          if (mkdirat(parent, name, 0755) != 0) return -1;
          for (const std::string& file : g_files) {
            close(openat(parent, fmt::format("{}/{}", name, file).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
          }
          return 0;
        },
    .remove =
        [](int parent, const char* name) {
          if (g_busy_removals > 0) {
            --g_busy_removals;
            errno = EBUSY;
            return -1;
          }
          for (const std::string& file : g_files) (void)unlinkat(parent, fmt::format("{}/{}", name, file).c_str(), 0);
          return unlinkat(parent, name, AT_REMOVEDIR);
        },
};

class CgroupOnPlainDirectories : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "cgroup_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    g_busy_removals = 0;
    g_files = {"cgroup.procs",
               "tasks",
               "memory.limit_in_bytes",
               "memory.memsw.limit_in_bytes",
               "memory.swappiness",
               "memory.max_usage_in_bytes",
               "memory.oom_control",
               "pids.max",
               "pids.events",
               "cpu.cfs_quota_us",
               "cpuacct.usage",
               "cgroup.kill",
               "memory.max",
               "memory.swap.max",
               "memory.peak",
               "memory.events",
               "cpu.max",
               "cpu.stat"};
  }
  void TearDown() override { fs::remove_all(root_); }

  // A cgroup directory that exists before the probe.
  fs::path Base(const std::string& path, const std::string& controllers = "", const std::string& handed = "") {
    const fs::path dir = root_ / path;
    fs::create_directories(dir);
    Put(dir / "cgroup.procs", "");
    Put(dir / "cgroup.controllers", controllers);
    Put(dir / "cgroup.subtree_control", handed);
    Put(dir / "cpu.cfs_quota_us", "-1\n");
    return dir;
  }
  static void Put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
  static std::string Get(const fs::path& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  std::string V1Mount(const std::string& point, const std::string& controllers, const std::string& root = "/") {
    return fmt::format("32 31 0:29 {} {} rw,relatime shared:1 - cgroup cgroup rw,{}\n", root, (root_ / point).string(),
                       controllers);
  }
  std::string V2Mount(const std::string& point) {
    return fmt::format("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", (root_ / point).string());
  }
  CgroupHost V1Host() {
    Base("memory/own"), Base("pids"), Base("cpu");
    return CgroupHost::ProbeAt("3:memory:/own\n2:pids:/\n1:cpu,cpuacct:/\n",
                               V1Mount("memory", "memory") + V1Mount("pids", "pids") + V1Mount("cpu", "cpu,cpuacct"),
                               kPretendedKernel);
  }
  CgroupHost V2Host() {
    Base("v2", "cpu memory pids", "cpu memory pids");
    return CgroupHost::ProbeAt("0::/\n", V2Mount("v2"), kPretendedKernel);
  }
  static std::vector<std::string> Groups(const fs::path& dir) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (entry.is_directory()) names.push_back(entry.path().filename());
    }
    return names;
  }

  fs::path root_;
};

pid_t DeadPid() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

TEST_F(CgroupOnPlainDirectories, V1CreatesBelowTheOwnCgroupOfEachHierarchy) {
  const CgroupHost host = V1Host();
  ASSERT_EQ(host.version(), CgroupVersion::kV1);
  EXPECT_TRUE(host.has_memory() && host.has_pids() && host.has_cpu() && host.has_cpuacct());
  EXPECT_EQ(host.reason(), "");
  auto group = host.Create("run", {.memory = 1 << 20, .pids = 12, .cpus = 1.5});
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->v2_dir(), -1);
  EXPECT_EQ(group->v1_tasks().size(), 3u);
  EXPECT_EQ(Get(root_ / "memory/own" / group->name() / "memory.limit_in_bytes"), "1048576");
  EXPECT_EQ(Get(root_ / "memory/own" / group->name() / "memory.memsw.limit_in_bytes"), "1048576");
  EXPECT_EQ(Get(root_ / "memory/own" / group->name() / "memory.swappiness"), "");
  EXPECT_EQ(Get(root_ / "pids" / group->name() / "pids.max"), "12");
  EXPECT_EQ(Get(root_ / "cpu" / group->name() / "cpu.cfs_quota_us"), "150000");
  *group = Cgroup();
  EXPECT_TRUE(Groups(root_ / "memory/own").empty());
  EXPECT_TRUE(Groups(root_ / "pids").empty());
  EXPECT_TRUE(Groups(root_ / "cpu").empty());
}

TEST_F(CgroupOnPlainDirectories, V1WithoutSwapAccountingTurnsSwappingOff) {
  g_files.erase("memory.memsw.limit_in_bytes");
  const CgroupHost host = V1Host();
  auto group = host.Create("run", {.memory = 4096});
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(Get(root_ / "memory/own" / group->name() / "memory.swappiness"), "0");
}

TEST_F(CgroupOnPlainDirectories, V1ReopensAllJoinDescriptorsOrNone) {
  auto group = V1Host().Create("run", {.memory = 1 << 20, .pids = 12, .cpus = 1.5});
  ASSERT_TRUE(group) << group.error().message;
  group->CloseJoinFds();
  EXPECT_TRUE(group->v1_tasks().empty());
  const int free = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(free);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit room_for_one = {static_cast<rlim_t>(free) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &room_for_one);
  const Status refused = group->OpenJoinFds();
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sys_errno, EMFILE);
  EXPECT_TRUE(group->v1_tasks().empty());
  ASSERT_TRUE(group->OpenJoinFds());
  EXPECT_EQ(group->v1_tasks().size(), 3u);
}

TEST_F(CgroupOnPlainDirectories, V1SkipsSeparateCpuHierarchyWithoutACpuLimit) {
  Base("memory"), Base("pids"), Base("cpu"), Base("cpuacct");
  const CgroupHost host = CgroupHost::ProbeAt(
      "4:memory:/\n3:pids:/\n2:cpu:/\n1:cpuacct:/\n",
      V1Mount("memory", "memory") + V1Mount("pids", "pids") + V1Mount("cpu", "cpu") + V1Mount("cpuacct", "cpuacct"),
      kPretendedKernel);
  auto without = host.Create("a", {.memory = 4096});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->v1_tasks().size(), 3u);
  EXPECT_TRUE(Groups(root_ / "cpu").empty());
  EXPECT_EQ(without->SetLimits({.cpus = 1}).error().code, ErrorCode::kUnsupported);
  auto with = host.Create("b", {.cpus = 0.001});
  ASSERT_TRUE(with);
  EXPECT_EQ(with->v1_tasks().size(), 4u);
  EXPECT_EQ(Get(root_ / "cpu" / with->name() / "cpu.cfs_quota_us"), "1000");
}

TEST_F(CgroupOnPlainDirectories, V1ResolvesABindMountedSubRoot) {
  Base("m odd/inner"), Base("pids");
  std::string mount = V1Mount("m odd", "memory", "/docker/abc");
  mount.replace(mount.find("m odd"), 5, "m\\040odd");
  const CgroupHost host = CgroupHost::ProbeAt("2:memory:/docker/abc/inner\n1:pids:/docker/abc\n",
                                              mount + V1Mount("pids", "pids", "/docker/abc"), kPretendedKernel);
  ASSERT_EQ(host.version(), CgroupVersion::kV1);
  EXPECT_TRUE(host.has_memory() && host.has_pids());
  EXPECT_FALSE(host.has_cpu() || host.has_cpuacct());
  EXPECT_THAT(host.reason(), HasSubstr("cpu, cpuacct"));
  auto group = host.Create("run", {});
  ASSERT_TRUE(group);
  EXPECT_EQ(Groups(root_ / "m odd/inner").size(), 1u);
}

TEST_F(CgroupOnPlainDirectories, V1WithoutBandwidthControlHasNoCpuLimit) {
  Base("memory"), Base("pids"), Base("cpu");
  fs::remove(root_ / "cpu/cpu.cfs_quota_us");
  const CgroupHost host = CgroupHost::ProbeAt(
      "3:memory:/\n2:pids:/\n1:cpu,cpuacct:/\n",
      V1Mount("memory", "memory") + V1Mount("pids", "pids") + V1Mount("cpu", "cpu,cpuacct"), kPretendedKernel);
  EXPECT_FALSE(host.has_cpu());
  EXPECT_TRUE(host.has_cpuacct());
  const auto refused = host.Create("run", {.cpus = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("limit of cpu"));
}

TEST_F(CgroupOnPlainDirectories, V1ReadsUsage) {
  const CgroupHost host = V1Host();
  auto group = host.Create("run", {});
  ASSERT_TRUE(group);
  auto usage = group->Usage();
  ASSERT_TRUE(usage);
  EXPECT_FALSE(usage->cpu || usage->peak_memory || usage->oom_kills || usage->pids_refused);
  Put(root_ / "cpu" / group->name() / "cpuacct.usage", "123456789\n");
  Put(root_ / "memory/own" / group->name() / "memory.max_usage_in_bytes", "4096\n");
  Put(root_ / "memory/own" / group->name() / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  Put(root_ / "pids" / group->name() / "pids.events", "max 7\n");
  usage = group->Usage();
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->cpu, std::chrono::nanoseconds(123456789));
  EXPECT_EQ(usage->peak_memory, 4096u);
  EXPECT_EQ(usage->oom_kills, 2u);
  EXPECT_EQ(usage->pids_refused, 7u);
}

TEST_F(CgroupOnPlainDirectories, V2UsesTheOwnCgroupIfItDelegatesControllers) {
  const CgroupHost host = V2Host();
  ASSERT_EQ(host.version(), CgroupVersion::kV2);
  EXPECT_TRUE(host.has_memory() && host.has_pids() && host.has_cpu() && host.has_cpuacct());
  auto group = host.Create("run", {.memory = 8192, .pids = 3, .cpus = 0.5});
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_GE(group->v2_dir(), 0);
  EXPECT_TRUE(group->v1_tasks().empty());
  const fs::path dir = root_ / "v2" / group->name();
  EXPECT_EQ(Get(dir / "memory.max"), "8192");
  EXPECT_EQ(Get(dir / "memory.swap.max"), "0");
  EXPECT_EQ(Get(dir / "pids.max"), "3");
  EXPECT_EQ(Get(dir / "cpu.max"), "50000 100000");
  Put(dir / "cpu.stat", "usage_usec 1500\nuser_usec 1000\n");
  Put(dir / "memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 1\noom_group_kill 0\n");
  Put(dir / "pids.events", "max 4\n");
  const auto usage = group->Usage();
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->cpu, std::chrono::microseconds(1500));
  EXPECT_EQ(usage->peak_memory, std::nullopt);
  EXPECT_EQ(usage->oom_kills, 1u);
  EXPECT_EQ(usage->pids_refused, 4u);
  Put(dir / "memory.max", ""), Put(dir / "pids.max", "");
  ASSERT_TRUE(group->SetLimits({.pids = 5, .cpus = 0.5}));
  EXPECT_EQ(Get(dir / "memory.max"), "max");
  EXPECT_EQ(Get(dir / "pids.max"), "5");
  group->CloseJoinFds();
  EXPECT_EQ(group->v2_dir(), -1);
}

TEST_F(CgroupOnPlainDirectories, V2WalksUpToTheFirstThatDelegatesControllers) {
  Base("v2", "cpu memory pids", "cpu memory pids");
  Base("v2/user", "cpu memory pids", "memory pids");
  Base("v2/user/app", "memory pids", "pids");
  Base("v2/user/app/own", "pids", "");
  const CgroupHost host = CgroupHost::ProbeAt("0::/user/app/own\n", V2Mount("v2"), kPretendedKernel);
  ASSERT_EQ(host.version(), CgroupVersion::kV2);
  // "app" has both to give: enabling the missing one is asked of it before its parent is considered.
  EXPECT_EQ(Get(root_ / "v2/user/app/cgroup.subtree_control"), "+memory ");
}

TEST_F(CgroupOnPlainDirectories, V2StartsAboveTheLeafOfASupervisor) {
  const std::string leaf = FormatGroupName(CurrentOwner(), internal::kSupervisorLeaf);
  Base("v2", "memory pids", "memory pids");
  Base("v2/scope", "memory pids", "memory pids");
  Base("v2/scope/" + leaf, "memory pids", "");
  const CgroupHost host = CgroupHost::ProbeAt("0::/scope/" + leaf + "\n", V2Mount("v2"), kPretendedKernel);
  auto group = host.Create("run", {});
  ASSERT_TRUE(group);
  EXPECT_TRUE(fs::exists(root_ / "v2/scope" / group->name()));
  EXPECT_FALSE(host.has_cpu());
}

TEST_F(CgroupOnPlainDirectories, V1IsPreferredToAV2TreeWithoutControllers) {
  Base("memory"), Base("pids"), Base("unified", "hugetlb");
  const CgroupHost host =
      CgroupHost::ProbeAt("2:memory:/\n1:pids:/\n0::/\n",
                          V2Mount("unified") + V1Mount("memory", "memory") + V1Mount("pids", "pids"), kPretendedKernel);
  EXPECT_EQ(host.version(), CgroupVersion::kV1);
}

TEST_F(CgroupOnPlainDirectories, V2WithMemoryDisabledStillLimitsPids) {
  Base("v2", "cpu pids", "cpu pids");
  const CgroupHost host = CgroupHost::ProbeAt("0::/\n", V2Mount("v2"), kPretendedKernel);
  ASSERT_EQ(host.version(), CgroupVersion::kV2);
  EXPECT_TRUE(host.has_pids() && !host.has_memory());
  EXPECT_THAT(host.reason(), HasSubstr("memory"));
}

TEST_F(CgroupOnPlainDirectories, MissingCgroupsReportTheReason) {
  EXPECT_THAT(CgroupHost::ProbeAt("", "").reason(), HasSubstr("No cgroup file system is mounted"));
  Base("unified", "hugetlb");
  const CgroupHost host = CgroupHost::ProbeAt("0::/\n", V2Mount("unified"));
  EXPECT_EQ(host.version(), CgroupVersion::kNone);
  EXPECT_THAT(host.reason(), HasSubstr("neither memory nor pids"));
  const auto group = host.Create("run", {});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(host.Sweep(), 0u);
}

// Runs `check` as an ordinary user.
int AsNobody(auto check) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(99);
    check();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST_F(CgroupOnPlainDirectories, OrdinaryUserGetsTheRemedy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become an ordinary user";
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  Base("v2", "cpu memory pids", "cpu memory pids");
  Base("memory"), Base("pids");
  const std::string v2 = V2Mount("v2");
  const std::string v1 = V1Mount("memory", "memory") + V1Mount("pids", "pids");
  EXPECT_EQ(AsNobody([&] {
              const CgroupHost host = CgroupHost::ProbeAt("0::/\n", v2, kPretendedKernel);
              EXPECT_EQ(host.version(), CgroupVersion::kNone);
              EXPECT_THAT(host.reason(), HasSubstr("systemd-run --user --scope -p Delegate=yes cella"));
            }),
            0);
  EXPECT_EQ(AsNobody([&] {
              const CgroupHost host = CgroupHost::ProbeAt("2:memory:/\n1:pids:/\n", v1, kPretendedKernel);
              EXPECT_EQ(host.version(), CgroupVersion::kNone);
              EXPECT_THAT(host.reason(), HasSubstr("ask an administrator"));
            }),
            0);
}

TEST_F(CgroupOnPlainDirectories, V1UsesGroupsMadeByAnAdministratorForTheUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become an ordinary user";
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  for (const char* name : {"memory", "pids"}) {
    Base(name);
    ASSERT_EQ(chown(Base(std::string(name) + "/cella").c_str(), 65534, 65534), 0);
  }
  const std::string mounts = V1Mount("memory", "memory") + V1Mount("pids", "pids");
  EXPECT_EQ(AsNobody([&] {
              const CgroupHost host = CgroupHost::ProbeAt("2:memory:/\n1:pids:/\n", mounts, kPretendedKernel);
              EXPECT_EQ(host.version(), CgroupVersion::kV1);
              auto group = host.Create("run", {.pids = 4});
              EXPECT_TRUE(group.has_value());
              EXPECT_EQ(Groups(root_ / "memory/cella").size(), 1u);
            }),
            0);
}

TEST_F(CgroupOnPlainDirectories, RejectsInvalidNamesAndLimits) {
  const CgroupHost host = V2Host();
  for (const char* name : {"", "a/b", "..x/", "supervisor", "a b"}) EXPECT_FALSE(host.Create(name, {})) << name;
  EXPECT_FALSE(host.Create(std::string(65, 'a'), {}));
  EXPECT_FALSE(host.Create("run", {.cpus = -1.0}));
  EXPECT_FALSE(host.Create("run", {.cpus = std::nan("")}));
  auto first = host.Create("run", {});
  EXPECT_TRUE(first);
  EXPECT_FALSE(host.Create("run", {}));
  EXPECT_TRUE(fs::exists(root_ / "v2" / first->name()));
}

TEST_F(CgroupOnPlainDirectories, FailedCreateLeavesNothing) {
  g_files.erase("pids.max");
  const CgroupHost host = V1Host();
  EXPECT_FALSE(host.Create("run", {.memory = 4096, .pids = 4}));
  EXPECT_TRUE(Groups(root_ / "memory/own").empty());
  EXPECT_TRUE(Groups(root_ / "pids").empty());
}

TEST_F(CgroupOnPlainDirectories, RemovalIsRetriedWhileTheKernelIsBusy) {
  const CgroupHost host = V2Host();
  auto group = host.Create("run", {});
  ASSERT_TRUE(group);
  g_busy_removals = 5;
  *group = Cgroup();
  EXPECT_TRUE(Groups(root_ / "v2").empty());
}

TEST_F(CgroupOnPlainDirectories, SweepRemovesOnlyGroupsOfDeadSupervisors) {
  const CgroupHost host = V1Host();
  auto own = host.Create("run", {});
  ASSERT_TRUE(own);
  const Owner self = CurrentOwner();
  Owner dead = self, reused = self, elsewhere = self;
  dead.pid = DeadPid();
  ++reused.start_time;
  elsewhere.pid_namespace += 1;
  elsewhere.pid = dead.pid;
  for (const char* dir : {"memory/own", "pids"}) Base(dir + ("/" + FormatGroupName(dead, "both")));
  Base("cpu/" + FormatGroupName(reused, "one"));
  Base("pids/" + FormatGroupName(elsewhere, "x"));
  Base("pids/" + FormatGroupName({.pid_namespace = self.pid_namespace, .pid = dead.pid}, "start-unknown"));
  Base("pids/cella"), Base("pids/cella-1-2"), Base("pids/system.slice");
  g_files.insert({"cgroup.controllers", "cgroup.subtree_control"});
  EXPECT_EQ(host.Sweep(), 3u);
  EXPECT_EQ(Groups(root_ / "memory/own"), std::vector{own->name()});
  EXPECT_EQ(Groups(root_ / "cpu"), std::vector{own->name()});
  EXPECT_THAT(Groups(root_ / "pids"), testing::UnorderedElementsAre(own->name(), FormatGroupName(elsewhere, "x"),
                                                                    "cella", "cella-1-2", "system.slice"));
  EXPECT_EQ(host.Sweep(), 0u);
}

TEST_F(CgroupOnPlainDirectories, SweepKillsProcessesOfADeadSupervisor) {
  const CgroupHost host = V2Host();
  Owner dead = CurrentOwner();
  dead.pid = DeadPid();
  const pid_t orphan = fork();
  if (orphan == 0) {
    pause();
    _exit(0);
  }
  const fs::path dir = Base("v2/" + FormatGroupName(dead, "run"));
  g_files.insert({"cgroup.controllers", "cgroup.subtree_control"});
  Put(dir / "cgroup.procs", fmt::format("{}\n", orphan));
  g_busy_removals = 1;
  // The list never empties in a plain directory: bounded all the same.
  const auto begin = std::chrono::steady_clock::now();
  (void)host.Sweep();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  int status = 0;
  ASSERT_EQ(waitpid(orphan, &status, 0), orphan);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(CgroupOnPlainDirectories, SweepDoesNotKillInTheLeafOfASupervisor) {
  const CgroupHost host = V2Host();
  Owner dead = CurrentOwner();
  dead.pid = DeadPid();
  const fs::path dir = Base("v2/" + FormatGroupName(dead, internal::kSupervisorLeaf));
  const pid_t survivor = fork();
  if (survivor == 0) {
    pause();
    _exit(0);
  }
  Put(dir / "cgroup.procs", fmt::format("{}\n", survivor));
  g_busy_removals = 1;
  EXPECT_EQ(host.Sweep(), 0u);
  EXPECT_EQ(waitpid(survivor, nullptr, WNOHANG), 0);
  kill(survivor, SIGKILL);
  waitpid(survivor, nullptr, 0);
}

}  // namespace
}  // namespace cella::os
