// Where a kernel's processes live: an unconfined process tree that is watched, or a jail. A place outlives its kernel:
// in a jail the files of the session are kept when the kernel is started anew.
#pragma once

#include <memory>
#include <string>

#include "confine/launch_context.h"
#include "language/plan.h"
#include "os/cgroup.h"
#include "os/directory.h"
#include "run/executor.h"

namespace cella::executor {

struct KernelPlace {
  os::Cgroup cgroup;  // declared before the jail: the group is removed after everything in it is gone
  confine::Jail jail;
  os::CgroupMeter meter;
  // Of a jail: its files as the supervisor reaches them, and what confines it.
  std::optional<os::Directory> workspace;
  std::optional<os::Directory> temporary;  // its /tmp
  Isolation isolation;
  bool forks = false;  // its root is a copy of a zygote, of which kernels are forks

  bool is_jail() const { return workspace.has_value(); }
};

// Of one kernel: its connection file and its sockets.
struct KernelDirectory {
  std::string path;                    // as the kernel sees it
  std::shared_ptr<const UniqueFd> fd;  // as the supervisor reaches it, whatever a guest does to the path
  std::string spill;                   // on the host: where messages wait
};
// `host` is a private, empty directory on the host.
Result<KernelDirectory> MakeKernelDirectory(const KernelPlace& place, const std::string& host);
// Creates the connection file in it.
Status WriteConnectionFile(const KernelPlace& place, const KernelDirectory& directory, std::string_view content);
inline constexpr const char* kConnectionFile = "kernel.json";

// `root`: a copy of a zygote that becomes the root of the tree; nothing: the launcher does.
async::Task<Result<std::unique_ptr<KernelPlace>>> OpenTree(confine::LaunchContext& context,
                                                           const confine::LimitPlan& limits,
                                                           std::optional<confine::InitProcess> root);

// A jail that shows what `plan` needs, and the runners' folder if processes of the kernel call the host. Fills in what
// the limits are enforced by.
async::Task<Result<std::unique_ptr<KernelPlace>>> OpenJail(confine::LaunchContext& context, const run::GuestSpec& guest,
                                                           const language::Plan& plan, confine::LimitPlan* limits);

}  // namespace cella::executor
