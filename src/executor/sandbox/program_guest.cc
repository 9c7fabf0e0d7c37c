#include "executor/sandbox/program_guest.h"

#include <unistd.h>

#include <algorithm>

#include "confine/host_shares.h"
#include "confine/identity.h"
#include "confine/isolation.h"
#include "confine/jail_env_vars.h"
#include "confine/root_tree.h"
#include "executor/sandbox/session_plan.h"

namespace cella::executor {
namespace {

class SandboxProgramGuest : public confine::ProgramGuest, public run::CallSocket {
 public:
  SandboxProgramGuest(confine::LaunchContext& context, run::GuestSpec spec)
      : confine::ProgramGuest(context, std::move(spec)) {}

  async::Task<Status> Build(const RunSpec& only, std::string start);
  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override { return jail_->Listen(); }

 private:
  async::Task<Status> Prepare(const run::BlockTurn&) override { co_return Status{}; }
  async::Task<Result<language::Plan>> PlanFor(const run::BlockTurn&) override {
    if (!plan_) co_return Err(ErrorCode::kInvalid, "one program is one block: use a session");
    co_return *std::exchange(plan_, std::nullopt);
  }
  confine::EnvVars Variables(const language::Plan& plan) const override {
    confine::EnvVars variables = confine::JailEnvVars(plan);
    ShowNames(spec_.spaces, confine::kRunnersInside, &variables);
    return variables;
  }

  std::optional<language::Plan> plan_;  // of the one block
};

async::Task<Status> SandboxProgramGuest::Build(const RunSpec& only, std::string start) {
  const Policy& policy = spec_.policy;
  CO_TRY(confine::Launcher launcher, context_.TakeLauncher());
  const run::BlockTurn turn{.run = only, .block = only.blocks.front(), .limits = policy.limits};
  auto made = co_await confine::MakePlan(context_, policy, turn, language::Destination::kJail, "/tmp", "/workspace");
  CO_TRY(plan_, std::move(made));
  CO_TRY_VOID(confine::CheckWorkdir(policy.workdir));
  auto shareable = co_await confine::CheckHostShares(context_, confine::SharesOf(policy, plan_->visible));
  if (!shareable) co_return shareable;
  CO_TRY(confine::BuildIdentity identity, confine::ChooseIdentity(static_cast<uint32_t>(getpid())));
  const bool private_workspace = policy.workdir.empty();
  CO_TRY(limits_, confine::PlanLimits(policy, confine::ObserveMachine(context_.cgroups, confine::Confinement::kJail,
                                                                      private_workspace)));

  confine::JailSpecBuilder builder;
  jail::JailSpec& spec = builder.spec();
  identity.Describe(&spec);
  if (policy.network == Network::kHost) spec.flags |= jail::kHostNetwork;
  if (limits_.strict_memory) spec.flags |= jail::kStrictMemory;
  spec.scratch_bytes = policy.limits.disk.value;
  // Every file costs the kernel about a kilobyte that no size limit of a tmpfs counts.
  spec.scratch_inodes = std::max<uint64_t>(1024, policy.limits.disk.value / 16384);
  spec.watch = limits_.watch;
  builder.SetHostname("cella");
  CO_TRY_VOID(confine::DescribeRootTree(*plan_, policy, &builder));
  CO_TRY_VOID(confine::AddPolicyMounts(policy, &builder));
  if (!spec_.spaces.empty()) CO_TRY_VOID(builder.AddMount(context_.runners, confine::kRunnersInside, 0));
  call_socket_ = jail::kCallSocket;
  runners_ = confine::kRunnersInside;

  CO_TRY(cgroup_, context_.MakeCgroup(limits_.cgroup));
  CO_TRY(confine::Jail jail, std::move(launcher).BuildJail(builder, cgroup_));
  auto ready = co_await jail.WaitReady();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup_.CloseJoinFds();
  CO_TRY_VOID(confine::CheckWatch(policy, &limits_, *ready));
  isolation_ = confine::DescribeSandbox(policy, limits_, context_.cgroups, *ready);
  isolation_.start = std::move(start);
  files_.emplace(os::Directory(std::move(ready->workspace), confine::WorkspaceOwner(identity)),
                 confine::WhoseFiles(policy), *context_.files);
  cwd_ = "/workspace";
  jail_.emplace(std::move(jail));
  co_return Status{};
}

}  // namespace

async::Task<Result<std::unique_ptr<run::Guest>>> OpenProgramGuest(confine::LaunchContext& context, run::GuestSpec spec,
                                                                  const RunSpec& only, std::string start) {
  if (only.blocks.size() != 1) co_return Err(ErrorCode::kInvalid, "one program is one block: use a session");
  auto guest = std::make_unique<SandboxProgramGuest>(context, std::move(spec));
  auto built = co_await guest->Build(only, std::move(start));
  if (!built) co_return std::unexpected(std::move(built.error()));
  co_return std::unique_ptr<run::Guest>(std::move(guest));
}

}  // namespace cella::executor
