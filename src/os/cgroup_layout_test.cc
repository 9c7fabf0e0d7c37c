#include "os/cgroup_layout.h"

#include <gtest/gtest.h>

#include "os/cgroup_owner.h"

namespace cella::os::internal {
namespace {

TEST(CgroupLayout, FindsSeparateAndCoMountedV1Hierarchies) {
  const auto mounts = ParseCgroupMounts(
      "23 1 0:20 / /sys rw - sysfs sysfs rw\n"
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
      "33 31 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n"
      "34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
      "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n");
  ASSERT_EQ(mounts.size(), 4u);
  EXPECT_EQ(mounts[0].controllers, kCpu | kCpuacct);
  EXPECT_EQ(mounts[0].point, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(mounts[1].controllers, kMemory);
  EXPECT_EQ(mounts[2].controllers, 0u);
  EXPECT_TRUE(mounts[3].v2);
}

TEST(CgroupLayout, CpusetIsNotCpu) {
  EXPECT_EQ(ParseControllers("cpuset,io,memory_extra", ","), 0u);
  EXPECT_EQ(ParseControllers("cpuset cpu io memory pids\n", " \n"), kCpu | kMemory | kPids);
}

TEST(CgroupLayout, ParsesEscapesAndOptionalFields) {
  const auto mounts = ParseCgroupMounts(
      "32 31 0:29 /a\\040b /mnt/with\\040space\\011tab\\134slash rw shared:1 master:2 propagate_from:3 unbindable - "
      "cgroup2 some\\040source rw\n"
      "33 31 0:29 / /mnt/none rw - cgroup2 none rw\n"
      "34 31 0:29 / /mnt/short\\04 rw - cgroup2 none rw");
  ASSERT_EQ(mounts.size(), 3u);
  EXPECT_EQ(mounts[0].root, "/a b");
  EXPECT_EQ(mounts[0].point, "/mnt/with space\ttab\\slash");
  EXPECT_EQ(mounts[1].point, "/mnt/none");
  EXPECT_EQ(mounts[2].point, "/mnt/short\\04");
}

TEST(CgroupLayout, SkipsMalformedLines) {
  EXPECT_TRUE(ParseCgroupMounts("").empty());
  EXPECT_TRUE(ParseCgroupMounts("\n\ngarbage\n - cgroup\n1 2 3 - cgroup2 x rw\n").empty());
}

TEST(CgroupLayout, ReadsMembershipsWithColonsInThePath) {
  const auto own =
      ParseCgroupMemberships("4:memory:/a:b/c\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/user.slice\nrubbish\n");
  ASSERT_EQ(own.size(), 4u);
  EXPECT_EQ(own[0].path, "/a:b/c");
  EXPECT_EQ(own[0].controllers, kMemory);
  EXPECT_EQ(own[1].controllers, kCpu | kCpuacct);
  EXPECT_FALSE(own[2].v2);
  EXPECT_TRUE(own[3].v2);
  EXPECT_EQ(own[3].path, "/user.slice");
}

TEST(CgroupLayout, MapsPathsThroughTheRootOfTheMount) {
  const CgroupMount whole{.root = "/", .point = "/cg"};
  EXPECT_EQ(VisibleDirectory(whole, "/"), "/cg");
  EXPECT_EQ(VisibleDirectory(whole, "/a/b"), "/cg/a/b");
  const CgroupMount part{.root = "/docker/abc", .point = "/cg"};
  EXPECT_EQ(VisibleDirectory(part, "/docker/abc"), "/cg");
  EXPECT_EQ(VisibleDirectory(part, "/docker/abc/d"), "/cg/d");
  EXPECT_EQ(VisibleDirectory(part, "/docker/abcd"), std::nullopt);
  EXPECT_EQ(VisibleDirectory(part, "/other"), std::nullopt);
}

TEST(CgroupLayout, PathsOutsideTheNamespaceAreNotVisible) {
  EXPECT_EQ(VisibleDirectory({.root = "/", .point = "/cg"}, "/../sibling"), std::nullopt);
  EXPECT_EQ(VisibleDirectory({.root = "/..", .point = "/cg"}, "/"), std::nullopt);
  EXPECT_EQ(VisibleDirectory({.root = "/", .point = "/cg"}, "/..name"), "/cg/..name");
}

TEST(OwnerTest, NamesRoundTrip) {
  const Owner owner{.pid_namespace = 4026531836, .pid = 77, .start_time = 123456};
  const std::string name = FormatGroupName(owner, "run-1");
  const auto parsed = ParseGroupName(name);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->owner, owner);
  EXPECT_EQ(parsed->name, "run-1");
}

TEST(OwnerTest, RejectsForeignNames) {
  for (const char* name : {"cella", "cella-", "cella-1-2-3", "cella-1-2-3-", "cella-1-0-3-x", "cella-1--2-3-x",
                           "cella-a-2-3-x", "cella-1-99999999999-3-x", "xcella-1-2-3-x", "system.slice"}) {
    EXPECT_FALSE(ParseGroupName(name)) << name;
  }
}

TEST(OwnerTest, CurrentProcessIsAliveAndAnotherStartTimeIsNot) {
  Owner self = CurrentOwner();
  ASSERT_NE(self.pid_namespace, 0u);
  ASSERT_NE(self.start_time, 0u);
  EXPECT_TRUE(IsAlive(self));
  ++self.start_time;
  EXPECT_FALSE(IsAlive(self));
}

}  // namespace
}  // namespace cella::os::internal
