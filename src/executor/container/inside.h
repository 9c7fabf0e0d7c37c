// What a guest in a container sees, and what its agent counts.
#pragma once

#include <optional>

#include "confine/env_vars.h"
#include "executor/container/bridge.h"
#include "os/cgroup.h"
#include "os/directory.h"
#include "run/executor.h"

namespace cella::executor {

inline constexpr const char* kWorkspaceInside = "/workspace";
inline constexpr const char* kHomeInside = "/tmp";
// Where the runners and the agent are, read-only.
inline constexpr const char* kProgramsInside = "/run/cella";

// A guest's variables before the plan's and the policy's: nothing of the host's, nothing of the image's but its PATH.
confine::EnvVars VariablesInside();

// All variables of a guest.
confine::EnvVars GuestVariablesInside(const run::GuestSpec& spec, const language::Plan& plan);

// The working directory that the caller gave, which is the workspace inside. Absent: there is none, or its files are to
// belong to another user than this process.
std::optional<os::Directory> OpenWorkdir(const Policy& policy);

// What the container's cgroup counted; absent where nothing does.
std::optional<os::CgroupUsage> UsageOf(const AgentBridge& bridge);

// What the agent measures now.
async::Task<run::GuestUsage> MeasureContainer(AgentBridge& bridge);

}  // namespace cella::executor
