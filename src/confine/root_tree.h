// What of the host is visible inside, and where.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"
#include "confine/spec_builder.h"
#include "language/plan.h"

namespace cella::confine {

// The inside of the search path of every guest.
inline constexpr const char* kGuestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// The last directory of the search path: `python` there is the chosen interpreter, where the distribution has only
// python3.
inline constexpr const char* kPythonLinkDirectory = "/run/python";

// Everything but the directories that the policy names.
Status DescribeRootTree(const language::Plan& plan, const Policy& policy, JailSpecBuilder* builder);
Status AddMounts(const std::vector<Mount>& mounts, JailSpecBuilder* builder);
// The workdir, or a private workspace, and the mounts.
Status AddPolicyMounts(const Policy& policy, JailSpecBuilder* builder);
// Of the policy's mounts, those that a zygote must see, since modules come from there: what is preloaded, or what
// `module_paths` name. Only read-only ones, and not below one that guests may write to. They are part of the maker's
// tree.
std::vector<Mount> ImportableMounts(const Policy& policy, bool preloads, const std::vector<std::string>& module_paths);
// The policy without them.
Policy Without(Policy policy, const std::vector<Mount>& mounts);
// For the others, in the tree of a maker: where its jails will have their mounts.
struct MountPoint {
  std::string target;
  MountMode mode = MountMode::kReadOnly;
  bool is_file = false;  // as the source is now
};
std::vector<MountPoint> MountPointsOf(const Policy& policy);
Status AddMountPoints(const std::vector<MountPoint>& points, JailSpecBuilder* builder);

}  // namespace cella::confine
