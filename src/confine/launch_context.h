// What executors that start programs are made from, and the two things they all do with it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "async/task.h"
#include "cella/policy.h"
#include "confine/host_shares.h"
#include "confine/launcher.h"
#include "confine/limits.h"
#include "language/code_trust.h"
#include "language/host_env.h"
#include "language/table.h"
#include "os/cgroup.h"

namespace cella::confine {

inline constexpr async::BlockingPool::Options kPlanningPool = {.threads = 2};
inline constexpr async::BlockingPool::Options kDecodingPool = {.threads = 2, .queue = 1024};
inline constexpr async::BlockingPool::Options kFilesPool = {.threads = 4, .queue = 1024};
inline constexpr const char* kRunnersInside = "/run/cella";
inline constexpr const char* kLayersInside = "/run/cella-packages";

struct LaunchContext {
  async::Loop& loop;
  std::string launcher;  // path of cella-launch
  std::string runners;   // directory of what lives inside guests: jails of sessions see it as kRunnersInside
  const language::LanguageTable& table;
  language::HostEnv host;
  std::vector<GuardedPath> guarded;  // what no guest may have
  OpenedPaths opened;                // but this
  std::string layers;                // packages that sessions add, seen as kLayersInside; empty: they cannot
  os::CgroupHost cgroups;
  // A launcher that was started ahead, while the rest of this was gathered; the first run takes it.
  std::optional<Launcher> started;
  // Where starts of sessions wait; null: they do not.
  const async::Gate* starting = nullptr;
  // What guests of this process may write to, or could at some time: of all its executors.
  std::shared_ptr<language::GuestDirectories> guest_directories = std::make_shared<language::GuestDirectories>();
  // Where plans are made, since programs are asked for them.
  std::unique_ptr<async::BlockingPool> planning = std::make_unique<async::BlockingPool>(loop, kPlanningPool);

  // Where frames of guests are decoded that are too large for the loop. Nothing waits there for a program.
  std::unique_ptr<async::BlockingPool> decoding = std::make_unique<async::BlockingPool>(loop, kDecodingPool);

  // Where files of workspaces are written, listed and copied out, which may be on a slow file system.
  std::unique_ptr<async::BlockingPool> files = std::make_unique<async::BlockingPool>(loop, kFilesPool);

  Result<Launcher> TakeLauncher();
  // The caller's environment, in which nothing is run that guests of this policy may write.
  language::HostEnv HostFor(const Policy& policy) const;
  // Empty where the machine has no cgroups for us.
  Result<os::Cgroup> MakeCgroup(const os::CgroupLimits& limits) const;
};

// To be awaited before anything of a guest with this policy exists: what it may write to is trusted no more.
async::Task<Status> NoteGuestDirectories(LaunchContext& context, const Policy& policy);

// CheckShares, off the loop.
async::Task<Status> CheckHostShares(LaunchContext& context, std::vector<HostShare> shares);

}  // namespace cella::confine
