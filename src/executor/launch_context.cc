#include "executor/launch_context.h"

#include "language/filename.h"

namespace cella::executor {

Result<Launch> LaunchContext::TakeLaunch() {
  if (!started) return Launch::Start(loop, launcher);
  Launch launch = std::move(*started);
  started.reset();
  return launch;
}

Result<os::Cgroup> LaunchContext::MakeCgroup(const os::CgroupLimits& limits) const {
  if (cgroups.version() == os::CgroupVersion::kNone) return os::Cgroup();
  return cgroups.Create(language::RandomHex(8), limits);
}

}  // namespace cella::executor
