#include "executor/container/container_executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "confine/host_shares.h"
#include "confine/identity.h"
#include "confine/workspace.h"
#include "executor/container/container_guest.h"
#include "executor/container/container_session.h"
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
  if (surroundings.rootless) {
    // The engine's user, which is the caller.
  } else if (geteuid() != 0 || !policy.workdir.empty()) {
    // The caller. Root's own directory is writable for uid 0 alone, which has no capabilities inside.
    surroundings.uid = geteuid();
    surroundings.gid = getegid();
  } else {
    TRY(confine::BuildIdentity identity, confine::ChooseIdentity(static_cast<uint32_t>(getpid()) + opened_++));
    surroundings.uid = identity.host_uid;
    surroundings.gid = identity.host_gid;
  }
  surroundings.open_files_maximum = HardLimit(RLIMIT_NOFILE);
  if (surroundings.open_files_maximum == 0) surroundings.open_files_maximum = kManyFiles;
  surroundings.processes_maximum = HardLimit(RLIMIT_NPROC);
  return surroundings;
}

Task<Result<std::unique_ptr<run::Guest>>> ContainerExecutor::Open(run::GuestSpec spec, const RunSpec* only,
                                                                  run::StopToken stop) {
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
  if (adapted) adapted = co_await container->Start(is_session, plan.limits.watch);
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
