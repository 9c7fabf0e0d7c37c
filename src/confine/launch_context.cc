#include "confine/launch_context.h"

#include "base/random.h"

namespace cella::confine {

Result<Launcher> LaunchContext::TakeLauncher() {
  if (!started) return Launcher::Start(loop, launcher);
  Launcher taken = std::move(*started);
  started.reset();
  return taken;
}

language::HostEnv LaunchContext::HostFor(const Policy& policy) const {
  language::HostEnv beside = host;
  const std::vector<std::string> writable = GuestWritable(policy);
  beside.guest_writable.insert(beside.guest_writable.end(), writable.begin(), writable.end());
  beside.guests = guest_directories;
  return beside;
}

Result<os::Cgroup> LaunchContext::MakeCgroup(const os::CgroupLimits& limits) const {
  if (cgroups.version() == os::CgroupVersion::kNone) return os::Cgroup();
  return cgroups.Create(RandomHex(8), limits);
}

async::Task<Status> NoteGuestDirectories(LaunchContext& context, const Policy& policy) {
  const std::vector<std::string> paths = GuestWritable(policy);
  if (context.guest_directories->Know(paths)) co_return Status{};
  auto note = [&]() -> Status {
    context.guest_directories->Add(paths);
    return {};
  };
  auto noted = co_await context.planning->Run(note);
  co_return noted;
}

async::Task<Status> CheckHostShares(LaunchContext& context, std::vector<HostShare> shares) {
  if (shares.empty()) co_return Status{};
  auto check = [&] {
    std::erase_if(shares, [&](const HostShare& share) { return context.opened.Hold(share); });
    return CheckShares(shares, context.guarded);
  };
  auto checked = co_await context.planning->Run(check);
  co_return checked;
}

}  // namespace cella::confine
