// Where the cgroup hierarchies are mounted and where this process stands in them: the texts of /proc/self/mountinfo and
// /proc/self/cgroup, parsed. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cella::os::internal {

// A set of controllers is an OR of these. cpuacct is a controller of v1 only; v2 counts CPU time without one.
constexpr unsigned kMemory = 1, kPids = 2, kCpu = 4, kCpuacct = 8;

struct CgroupMount {
  bool v2 = false;
  unsigned controllers = 0;  // v1 only
  std::string root;          // the cgroup that appears at `point`; not "/" for bind mounts, as containers have them
  std::string point;
};

struct CgroupMembership {
  bool v2 = false;
  unsigned controllers = 0;  // v1 only
  std::string path;
};

std::vector<CgroupMount> ParseCgroupMounts(std::string_view mountinfo);
std::vector<CgroupMembership> ParseCgroupMemberships(std::string_view self_cgroup);

// The directory under which cgroup `path` is seen through `mount`, if it is at all.
std::optional<std::string> VisibleDirectory(const CgroupMount& mount, std::string_view path);

// Names separated by any of `separators` to a set; unknown names are skipped.
unsigned ParseControllers(std::string_view names, std::string_view separators);

// "memory, pids"
std::string ControllerNames(unsigned controllers);

}  // namespace cella::os::internal
