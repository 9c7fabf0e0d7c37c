// The name of a group tells its supervisor: "cella-<pid namespace>-<pid>-<start time>-<name>". The start time makes a
// reused pid somebody else; the namespace is there because a pid of another one says nothing here.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cella::os::internal {

struct CgroupOwner {
  uint64_t pid_namespace = 0;  // inode number; 0 = unknown, then nothing is ever swept by or from this owner
  pid_t pid = 0;
  uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat

  auto operator<=>(const CgroupOwner&) const = default;
};

CgroupOwner CurrentCgroupOwner();

// In doubt it lives. Only for owners of our own pid namespace.
bool IsAlive(const CgroupOwner& owner);

std::string FormatGroupName(const CgroupOwner& owner, std::string_view name);

struct GroupName {
  CgroupOwner owner;
  std::string_view name;
};
std::optional<GroupName> ParseGroupName(std::string_view directory);

// The group name of the leaf that a v2 supervisor moves itself into.
constexpr std::string_view kSupervisorLeaf = "supervisor";

}  // namespace cella::os::internal
