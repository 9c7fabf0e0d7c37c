// What executors that start programs are made from, and the two things they all do with it.
#pragma once

#include <optional>
#include <string>

#include "async/gate.h"
#include "async/task.h"
#include "cella/policy.h"
#include "executor/launch.h"
#include "executor/limits.h"
#include "language/host_env.h"
#include "language/table.h"
#include "os/cgroup.h"

namespace cella::executor {

inline constexpr const char* kRunnersInside = "/run/cella";

struct LaunchContext {
  async::Loop& loop;
  std::string launcher;  // path of cella-launch
  std::string runners;   // directory of what lives inside guests: jails of sessions see it as kRunnersInside
  const language::LanguageTable& table;
  language::HostEnv host;
  os::CgroupHost cgroups;
  // A launcher that was started ahead, while the rest of this was gathered; the first run takes it.
  std::optional<Launch> started;
  // Where those wait who want to start a session; null: nobody does.
  const async::Gate* starting = nullptr;

  Result<Launch> TakeLaunch();
  // The caller's environment, in which nothing is run that guests of this policy may write.
  language::HostEnv HostFor(const Policy& policy) const;
  // Empty where the machine has no cgroups for us.
  Result<os::Cgroup> MakeCgroup(const os::CgroupLimits& limits) const;
};

}  // namespace cella::executor
