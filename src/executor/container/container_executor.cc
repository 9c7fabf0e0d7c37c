#include "executor/container/container_executor.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "confine/host_shares.h"
#include "confine/identity.h"
#include "confine/workspace.h"
#include "executor/container/container_guest.h"
#include "executor/container/container_session.h"
#include "executor/container/fresh_containers.h"
#include "executor/container/owner.h"

namespace cella::executor {
namespace {

using async::Task;

uint64_t HardLimit(__rlimit_resource resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) < 0 || limit.rlim_max == RLIM_INFINITY) return 0;
  return limit.rlim_max;
}

constexpr uint64_t kManyFiles = 1 << 20;

struct Owner {
  uint32_t uid = 0, gid = 0;
};

// Of the directories that the guest may write to: root if one of them is root's, else the owner of the first; empty:
// there are none. One that only the engine's machine has does not count.
std::optional<Owner> OwnerOfShares(const Policy& policy) {
  std::vector<std::string> shares;
  if (!policy.workdir.empty()) shares.push_back(policy.workdir);
  for (const Mount& mount : policy.mounts) {
    if (mount.mode == MountMode::kReadWrite) shares.push_back(mount.source);
  }
  std::optional<Owner> owner;
  for (const std::string& path : shares) {
    struct stat info;
    if (stat(path.c_str(), &info) < 0 || !S_ISDIR(info.st_mode)) continue;
    if (info.st_uid == 0) return Owner{};
    if (!owner) owner = {info.st_uid, info.st_gid};
  }
  return owner;
}

// Whose id the code has, unless the engine is rootless: the caller's. Started by root, that of the owner of what it may
// write to, which for root's own directory is uid 0 without capabilities; else an unprivileged id.
Result<Owner> ChooseOwner(const Policy& policy, uint32_t number) {
  if (geteuid() != 0) return Owner{geteuid(), getegid()};
  if (auto owner = OwnerOfShares(policy)) return *owner;
  TRY(confine::BuildIdentity identity, confine::ChooseIdentity(number));
  return Owner{identity.host_uid, identity.host_gid};
}

// TaskWeaver's image, which people build. No registry has it, so the default stands in for it. With a tag it is an
// image like any other.
constexpr const char* kTaskWeaverImage = "executor_container";

}  // namespace

Task<Result<docker::Engine*>> ContainerExecutor::EngineFor(const std::string& name) {
  if (auto known = engines_.find(name); known != engines_.end()) co_return known->second.get();
  CO_TRY(docker::EngineAddress address, docker::FindEngine(name, docker::EngineSurroundings::FromProcess()));
  auto engine = std::make_unique<docker::Engine>(context_.loop, std::move(address));
  auto ready = co_await engine->Negotiate();
  CO_TRY_VOID(ready);
  auto listed = co_await engine->List(kOwnerLabel);
  CO_TRY(auto ours, std::move(listed));
  for (const docker::ContainerSummary& one : ours) {
    auto owner = one.labels.find(kOwnerLabel);
    if (owner == one.labels.end() || one.labels.contains(kKeptLabel) || !IsOrphan(owner->second)) continue;
    (void)co_await engine->Remove(one.id);
  }
  // Another guest may have been first meanwhile, and its container has that engine.
  co_return engines_.try_emplace(name, std::move(engine)).first->second.get();
}

Result<ContainerSurroundings> ContainerExecutor::Surroundings(const Policy& policy, const docker::Engine& engine) {
  ContainerSurroundings surroundings;
  surroundings.rootless = engine.is_rootless();
  surroundings.podman = engine.is_podman();
  surroundings.programs = context_.runners;
  TRY(surroundings.owner, OwnerOfThisProcess());
  // User 0 of a rootless engine is the engine's user, which is the caller.
  if (!surroundings.rootless) {
    TRY(const Owner owner, ChooseOwner(policy, static_cast<uint32_t>(getpid()) + opened_++));
    surroundings.uid = owner.uid;
    surroundings.gid = owner.gid;
  }
  surroundings.open_files_maximum = HardLimit(RLIMIT_NOFILE);
  if (surroundings.open_files_maximum == 0) surroundings.open_files_maximum = kManyFiles;
  surroundings.processes_maximum = HardLimit(RLIMIT_NPROC);
  return surroundings;
}

Task<Result<std::unique_ptr<run::Guest>>> ContainerExecutor::Open(run::GuestSpec spec, const RunSpec* only,
                                                                  run::StopToken stop) {
  if (only != nullptr || spec.policy.container.fresh == ContainerFresh::kSession) {
    auto guest = co_await OpenOne(std::move(spec), only, stop, nullptr);
    co_return guest;
  }
  // No variables outlive a run.
  spec.checkpoint = CheckpointMode::kOff;
  auto calls = std::make_shared<CallListener>();
  auto first = co_await OpenOne(spec, nullptr, stop, calls);
  CO_TRY(std::unique_ptr<run::Guest> guest, std::move(first));
  spec.progress = nullptr;
  const Policy policy = spec.policy;
  auto open = [this, calls, spec = std::move(spec)](run::StopToken next) {
    return OpenOne(spec, nullptr, next, calls);
  };
  co_return std::make_unique<FreshContainers>(policy, std::move(open), std::move(guest));
}

Task<Result<std::unique_ptr<run::Guest>>> ContainerExecutor::OpenOne(run::GuestSpec spec, const RunSpec* only,
                                                                     run::StopToken stop,
                                                                     std::shared_ptr<CallListener> calls) {
  const Policy& policy = spec.policy;
  CO_TRY_VOID(confine::CheckWorkdir(policy.workdir));
  if (!spec.preload.empty()) {
    co_return Err(ErrorCode::kUnsupported,
                  "modules cannot be preloaded in a container: import them in the session's first run");
  }
  CO_TRY_VOID(CheckContainerPolicy(policy));
  auto found = co_await EngineFor(policy.container.engine);
  CO_TRY(docker::Engine * engine, std::move(found));
  CO_TRY(ContainerSurroundings surroundings, Surroundings(policy, *engine));
  if (policy.container.image == kTaskWeaverImage) {
    auto there = co_await engine->HasImage(kTaskWeaverImage);
    CO_TRY(const bool has_image, std::move(there));
    if (!has_image) spec.policy.container.image.clear();
  }
  const bool is_session = only == nullptr && policy.container.mode == ContainerMode::kSession;
  const LimitsFor what = is_session ? LimitsFor::kSession : LimitsFor::kProgram;
  surroundings.packages = std::ranges::find(spec.spaces, run::kPackagesSpace) != spec.spaces.end();
  CO_TRY(ContainerPlan plan, PlanContainer(policy, surroundings, what));
  auto shareable = co_await confine::CheckHostShares(context_, confine::SharesOf(policy, {}));
  CO_TRY_VOID(shareable);
  CO_TRY_VOID(co_await confine::NoteGuestDirectories(context_, policy));
  Container::Waiting waiting{stop, spec.progress};
  auto created =
      co_await Container::Create(context_.loop, *engine, live_, plan.spec, policy.container, std::move(waiting));
  CO_TRY(std::unique_ptr<Container> container, std::move(created));
  Status adapted = AdaptToEngine(policy, docker::CompareWithRequest(plan.spec, container->facts()), &plan);
  if (adapted) adapted = co_await container->Start(is_session, plan.limits.watch, std::move(calls));
  if (adapted && stop.ending()) adapted = Err(ErrorCode::kClosed, "stopped before it began");
  if (!adapted) {
    co_await container->End();
    co_return std::unexpected(std::move(adapted.error()));
  }
  Isolation isolation = DescribeContainer(policy, plan, container->bridge().ready(), container->facts().name);
  if (is_session) {
    auto opened = co_await ContainerSession::Open(context_, std::move(spec), std::move(container),
                                                  std::move(plan.limits), std::move(isolation), stop);
    co_return opened;
  }
  auto guest = std::make_unique<ContainerGuest>(context_, std::move(spec), std::move(container), std::move(plan.limits),
                                                std::move(isolation));
  auto prepared = co_await guest->Prepare(stop);
  if (!prepared) {
    co_await guest->Close();
    co_return std::unexpected(std::move(prepared.error()));
  }
  co_return guest;
}

}  // namespace cella::executor
