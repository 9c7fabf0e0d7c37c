// What of the host is visible inside, and where.
#pragma once

#include "base/result.h"
#include "cella/policy.h"
#include "executor/spec_builder.h"
#include "language/plan.h"

namespace cella::executor {

// The inside of the search path of every guest.
inline constexpr const char* kGuestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Status DescribeRootTree(const language::Plan& plan, const Policy& policy, JailSpecBuilder* builder);

}  // namespace cella::executor
