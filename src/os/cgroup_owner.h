// Whose a group is, by its name.
#pragma once

#include <string>
#include <string_view>

#include "os/owner.h"

namespace cella::os::internal {

constexpr std::string_view kGroupPrefix = "cella-";
// The group name of the leaf that a v2 supervisor moves itself into.
constexpr std::string_view kSupervisorLeaf = "supervisor";

inline std::string FormatGroupName(const Owner& owner, std::string_view name) {
  return FormatOwnedName(kGroupPrefix, owner, name);
}
inline std::optional<OwnedName> ParseGroupName(std::string_view directory) {
  return ParseOwnedName(kGroupPrefix, directory);
}

}  // namespace cella::os::internal
