#include "executor/launch_context.h"

#include "language/filename.h"

namespace cella::executor {

Result<Launch> LaunchContext::TakeLaunch() {
  if (!started) return Launch::Start(loop, launcher);
  Launch launch = std::move(*started);
  started.reset();
  return launch;
}

language::HostEnv LaunchContext::HostFor(const Policy& policy) const {
  language::HostEnv beside = host;
  const std::vector<std::string> writable = GuestWritable(policy);
  beside.guest_writable.insert(beside.guest_writable.end(), writable.begin(), writable.end());
  return beside;
}

Result<os::Cgroup> LaunchContext::MakeCgroup(const os::CgroupLimits& limits) const {
  if (cgroups.version() == os::CgroupVersion::kNone) return os::Cgroup();
  return cgroups.Create(language::RandomHex(8), limits);
}

}  // namespace cella::executor
