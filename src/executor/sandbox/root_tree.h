// What of the host is visible inside, and where.
#pragma once

#include "base/result.h"
#include "cella/policy.h"
#include "executor/spec_builder.h"
#include "language/plan.h"

namespace cella::executor {

// The inside of the search path of every guest.
inline constexpr const char* kGuestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Everything but the directories that the policy names.
Status DescribeRootTree(const language::Plan& plan, const Policy& policy, JailSpecBuilder* builder);
// The workdir, or a private workspace, and the mounts.
Status AddPolicyMounts(const Policy& policy, JailSpecBuilder* builder);
// In their stead, in the tree of a maker: where its jails will have their mounts.
Status AddMountPoints(const Policy& policy, JailSpecBuilder* builder);
// A mount of this source lies on a directory; for one that does not exist as well.
bool MountsDirectory(const Mount& mount);

}  // namespace cella::executor
