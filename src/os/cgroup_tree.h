// The directories in which groups are made, and the primitives on one group: control files, kill, remove. A group is
// named by its directory name and the set of hierarchies it has a directory in; everything is relative to descriptors
// held open, so that no path is walked twice. Blocking calls, no state of their own; safe from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "os/cgroup.h"
#include "os/cgroup_layout.h"
#include "os/cgroup_owner.h"

namespace cella::os::internal {

using Deadline = std::chrono::steady_clock::time_point;

struct CgroupHierarchy {
  UniqueFd base;  // O_PATH
  std::string path;
  unsigned controllers = 0;
};

// v2 has one hierarchy, v1 up to four; each controller is in at most one.
struct CgroupTree {
  CgroupVersion version = CgroupVersion::kNone;
  std::vector<CgroupHierarchy> hierarchies;
  unsigned controllers = 0;
  std::string reason;
  Owner owner;
  CgroupDirectoryCalls calls = kKernelDirectoryCalls;

  const CgroupHierarchy* With(unsigned controller) const;
};

// Control files. `group` may be "." for the base itself. Write returns 0 or the errno; Read what fits into the buffer.
int WriteControl(int base, std::string_view group, std::string_view file, std::string_view value);
std::optional<std::string_view> ReadControl(int base, std::string_view group, std::string_view file,
                                            std::span<char> buffer);
std::optional<uint64_t> ReadNumber(int base, std::string_view group, std::string_view file);
// The number after `key` in a file of "key number" lines.
std::optional<uint64_t> ReadKeyed(int base, std::string_view group, std::string_view file, std::string_view key);

// Process ids in the group; at most some five hundred. 0 stands for a process that our pid namespace does not show.
std::vector<pid_t> ReadMembers(int base, std::string_view group);

struct KillReport {
  bool emptied = true;
  bool forks_barred = false;  // pids.max is 0 now
  std::optional<uint64_t> pids_refused_before;
};
KillReport KillGroup(const CgroupTree& tree, unsigned hierarchies, std::string_view group, Deadline deadline);

// Removes the directories, killing first if they are not empty; false if something is left.
bool RemoveGroup(const CgroupTree& tree, unsigned hierarchies, const std::string& group, Deadline deadline);

}  // namespace cella::os::internal
