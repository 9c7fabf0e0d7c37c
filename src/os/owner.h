// Names of things that must not outlive their supervisor: "<prefix><pid namespace>-<pid>-<start time>-<name>". The
// start time tells a reused pid apart; the namespace is there because a pid of another one means nothing here.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cella::os {

struct Owner {
  uint64_t pid_namespace = 0;  // inode number; 0 = unknown, then nothing is ever swept by or from this owner
  pid_t pid = 0;
  uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat

  auto operator<=>(const Owner&) const = default;
};

Owner CurrentOwner();

// In doubt it lives. Only for owners of our own pid namespace.
bool IsAlive(const Owner& owner);

std::string FormatOwnedName(std::string_view prefix, const Owner& owner, std::string_view name);

struct OwnedName {
  Owner owner;
  std::string_view name;
};
std::optional<OwnedName> ParseOwnedName(std::string_view prefix, std::string_view text);

}  // namespace cella::os
