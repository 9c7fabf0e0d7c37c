#include "executor/subprocess/kernel_place.h"

#include <fcntl.h>
#include <unistd.h>

#include "confine/host_shares.h"
#include "confine/identity.h"
#include "confine/isolation.h"
#include "confine/root_tree.h"
#include "jupyter/connection_file.h"
#include "os/io.h"

namespace cella::executor {

Result<KernelDirectory> MakeKernelDirectory(const KernelPlace& place, const std::string& host) {
  KernelDirectory directory{.path = host, .fd = nullptr, .spill = host};
  UniqueFd fd;
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (place.is_jail()) {
    // A guest that ran before may have left anything in /tmp, but not under a name that it could not know.
    TRY(const std::string name, jupyter::MakeUuid());
    const std::string hidden = ".kernel-" + name;
    TRY_VOID(place.temporary->MakeDirectories(hidden));
    fd.Reset(openat(place.temporary->fd(), hidden.c_str(), kFlags));
    directory.path = "/tmp/" + hidden;
  } else {
    fd.Reset(open(host.c_str(), kFlags));
  }
  if (!fd) return SysErr(errno, "open '{}'", directory.path);
  directory.fd = std::make_shared<const UniqueFd>(std::move(fd));
  return directory;
}

Status WriteConnectionFile(const KernelPlace& place, const KernelDirectory& directory, std::string_view content) {
  const std::string path = fmt::format("{}/{}", directory.path, kConnectionFile);
  if (place.is_jail()) {
    constexpr std::string_view kTemporary = "/tmp/";
    return place.temporary->WriteFile(path.substr(kTemporary.size()), content, os::Directory::IfExists::kRefuse, 0600);
  }
  UniqueFd file(openat(directory.fd->get(), kConnectionFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return SysErr(errno, "create '{}'", path);
  return os::WriteAll(file.get(), content);
}

namespace {

// As confine::Launcher, by a copy of a zygote.
Result<confine::Jail> BuildTree(confine::InitProcess root, confine::JailSpecBuilder& builder,
                                const os::Cgroup& cgroup) {
  builder.spec().cgroup_v1_count = static_cast<uint32_t>(cgroup.v1_tasks().size());
  builder.spec().cgroup_v2 = cgroup.v2_dir() >= 0 ? 1 : 0;
  TRY(UniqueFd spec, builder.Finish());
  std::vector<int> fds = {spec.get()};
  for (const UniqueFd& tasks : cgroup.v1_tasks()) fds.push_back(tasks.get());
  if (cgroup.v2_dir() >= 0) fds.push_back(cgroup.v2_dir());
  jail::Request request = {};
  request.kind = jail::RequestKind::kBuild;
  TRY_VOID(root.Send(request, fds));
  return confine::Jail(std::move(root), false);
}

}  // namespace

async::Task<Result<std::unique_ptr<KernelPlace>>> OpenTree(confine::LaunchContext& context,
                                                           const confine::LimitPlan& limits,
                                                           std::optional<confine::InitProcess> root) {
  const bool forks = root.has_value();
  confine::JailSpecBuilder builder;
  builder.spec().flags = jail::kUnconfined;
  builder.spec().watch = limits.watch;
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits.cgroup));
  Result<confine::Jail> jail = root ? BuildTree(std::move(*root), builder, cgroup) : [&]() -> Result<confine::Jail> {
    TRY(confine::Launcher launcher, context.TakeLauncher());
    return std::move(launcher).BuildJail(builder, cgroup);
  }();
  if (!jail) co_return std::unexpected(std::move(jail.error()));
  auto ready = co_await jail->WaitReady();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup.CloseJoinFds();
  os::CgroupMeter meter = cgroup.OpenMeter();
  co_return std::make_unique<KernelPlace>(KernelPlace{.cgroup = std::move(cgroup),
                                                      .jail = std::move(*jail),
                                                      .meter = std::move(meter),
                                                      .workspace = std::nullopt,
                                                      .temporary = std::nullopt,
                                                      .isolation = {},
                                                      .forks = forks});
}

async::Task<Result<std::unique_ptr<KernelPlace>>> OpenJail(confine::LaunchContext& context, const run::GuestSpec& guest,
                                                           const language::Plan& plan, confine::LimitPlan* limits) {
  const Policy& policy = guest.policy;
  auto shareable = co_await confine::CheckHostShares(context, confine::SharesOf(policy, plan.visible));
  if (!shareable) co_return std::unexpected(std::move(shareable.error()));
  CO_TRY_VOID(co_await confine::NoteGuestDirectories(context, policy));
  CO_TRY(confine::BuildIdentity identity, confine::ChooseIdentity(static_cast<uint32_t>(getpid())));
  confine::JailSpecBuilder builder;
  jail::JailSpec& spec = builder.spec();
  identity.Describe(&spec);
  if (policy.network == Network::kHost) spec.flags |= jail::kHostNetwork;
  if (limits->strict_memory) spec.flags |= jail::kStrictMemory;
  spec.scratch_bytes = policy.limits.disk.value;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, policy.limits.disk.value / 16384);
  spec.watch = limits->watch;
  builder.SetHostname("cella");
  CO_TRY_VOID(confine::DescribeRootTree(plan, policy, &builder));
  CO_TRY_VOID(confine::AddPolicyMounts(policy, &builder));
  if (!guest.spaces.empty()) CO_TRY_VOID(builder.AddMount(context.runners, confine::kRunnersInside, 0));
  // All layers, under names that a guest cannot list or guess: packages are added without a mount.
  if (!guest.spaces.empty() && !context.layers.empty()) {
    CO_TRY_VOID(builder.AddMount(context.layers, confine::kLayersInside, 0));
  }
  CO_TRY(os::Cgroup cgroup, context.MakeCgroup(limits->cgroup));
  CO_TRY(confine::Launcher launcher, context.TakeLauncher());
  CO_TRY(confine::Jail jail, std::move(launcher).BuildJail(builder, cgroup));
  auto ready = co_await jail.WaitReady();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup.CloseJoinFds();
  CO_TRY_VOID(confine::CheckWatch(policy, limits, *ready));
  // No guest has run in this jail yet, so its tree is as it was made.
  UniqueFd temporary(openat(ready->workspace.get(), "../tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!temporary) co_return SysErr(errno, "open /tmp of the jail");
  const auto owner = confine::WorkspaceOwner(identity);
  Isolation isolation = confine::DescribeSandbox(policy, *limits, context.cgroups, *ready);
  os::CgroupMeter meter = cgroup.OpenMeter();
  co_return std::make_unique<KernelPlace>(KernelPlace{.cgroup = std::move(cgroup),
                                                      .jail = std::move(jail),
                                                      .meter = std::move(meter),
                                                      .workspace = os::Directory(std::move(ready->workspace), owner),
                                                      .temporary = os::Directory(std::move(temporary), owner),
                                                      .isolation = std::move(isolation)});
}

}  // namespace cella::executor
