#include "executor/local/local_guest.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "executor/local/host_variables.h"
#include "os/unix_listener.h"

namespace cella::executor {

async::Task<Result<std::unique_ptr<run::Guest>>> LocalGuest::Open(confine::LaunchContext& context,
                                                                  const LocalHost& host, LocalScratch scratch,
                                                                  run::GuestSpec spec) {
  std::unique_ptr<LocalGuest> guest(new LocalGuest(context, host, std::move(scratch), std::move(spec)));
  const Policy& policy = guest->spec_.policy;
  const auto machine = confine::ObserveMachine(context.cgroups, confine::Confinement::kNone, policy.workdir.empty());
  CO_TRY(confine::LimitPlan limits, confine::PlanLimits(policy, machine));
  auto started = co_await guest->Start(std::move(limits), "local");
  if (!started) co_return std::unexpected(std::move(started.error()));
  co_return std::unique_ptr<run::Guest>(std::move(guest));
}

async::Task<Status> LocalGuest::Start(confine::LimitPlan limits, std::string_view executor) {
  limits_ = std::move(limits);
  CO_TRY_VOID(OpenDirectories());
  auto started = co_await StartTree();
  if (!started) co_return started;
  isolation_.executor = executor;
  isolation_.cgroup = os::Name(context_.cgroups.version());
  isolation_.limits = limits_.enforced;
  isolation_.unenforced = limits_.unenforced;
  co_return Status{};
}

Status LocalGuest::OpenDirectories() {
  programs_ = scratch_.path() + "/scratch";
  const std::string workspace = scratch_.path() + "/workspace";
  if (mkdir(programs_.c_str(), 0700) < 0 || mkdir(workspace.c_str(), 0700) < 0) {
    return SysErr(errno, "create '{}'", workspace);
  }
  const std::string& workdir = spec_.policy.workdir.empty() ? workspace : spec_.policy.workdir;
  std::array<char, PATH_MAX> real;
  if (realpath(workdir.c_str(), real.data()) == nullptr) return SysErr(errno, "workdir '{}'", workdir);
  cwd_ = real.data();
  UniqueFd directory(open(cwd_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return SysErr(errno, "workdir '{}'", workdir);
  files_.emplace(os::Directory(std::move(directory), std::nullopt), confine::WhoseFiles(spec_.policy), *context_.files);
  return {};
}

// The directory of the session is private to the user who runs cella.
async::Task<Result<UniqueFd>> LocalGuest::Listen() {
  call_socket_ = CallSocketPath();
  runners_ = context_.runners;
  co_return os::ListenUnix(call_socket_, run::kCallBacklog);
}

// The launcher, unconfined: the watched root of all processes of the session.
async::Task<Status> LocalGuest::StartTree() {
  jail_.reset();
  confine::JailSpecBuilder builder;
  builder.spec().flags = jail::kUnconfined;
  builder.spec().watch = limits_.watch;
  CO_TRY(cgroup_, context_.MakeCgroup(limits_.cgroup));
  CO_TRY(confine::Launcher launcher, context_.TakeLauncher());
  CO_TRY(confine::Jail jail, std::move(launcher).BuildJail(builder, cgroup_));
  auto ready = co_await jail.WaitReady();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  cgroup_.CloseJoinFds();
  jail_.emplace(std::move(jail));
  co_return Status{};
}

// A program that did not die in time was ended with the whole tree.
async::Task<Status> LocalGuest::Prepare(const run::BlockTurn&) {
  jail_->TakeReports();
  if (!jail_->gone()) co_return Status{};
  co_await jail_->End();
  auto started = co_await StartTree();
  co_return started;
}

async::Task<Result<language::Plan>> LocalGuest::PlanFor(const run::BlockTurn& turn) {
  return confine::MakePlan(context_, spec_.policy, turn, language::Destination::kHost, programs_, cwd_);
}

bool LocalGuest::MayAddPackages() const {
  const bool listed = std::ranges::find(spec_.spaces, run::kPackagesSpace) != spec_.spaces.end();
  return listed && !context_.layers.empty();
}

async::Task<Result<std::string>> LocalGuest::Use(std::string directory) {
  const std::string link = PackagesLink();
  if (directory.empty()) {
    if (unlink(link.c_str()) < 0 && errno != ENOENT) co_return SysErr(errno, "remove '{}'", link);
    co_return std::string();
  }
  std::string packages = fmt::format("{}/{}", context_.layers, directory);
  const std::string next = link + ".next";
  (void)unlink(next.c_str());
  if (symlink(packages.c_str(), next.c_str()) < 0 || rename(next.c_str(), link.c_str()) < 0) {
    co_return SysErr(errno, "create '{}'", link);
  }
  co_return packages;
}

// Every Python program finds the name `deps` and the packages by runners/names. Commands find ours of `pip`, unless the
// interpreter is that of the caller's virtual environment, which has its own.
void LocalGuest::AddToVariables(confine::EnvVars* variables) const {
  // To look for packages takes a program some milliseconds: only where there may be some.
  if (!MayAddPackages() || (!spec_.runtime_deps && spec_.deps.empty())) return;
  const bool own_pip = !spec_.policy.venv.empty() && spec_.environment.empty();
  std::string path = PackagesLink() + "/bin";
  if (!own_pip) path = fmt::format("{}/shims/bin:{}", context_.runners, path);
  variables->Set("PATH", path + ":" + *variables->Find("PATH"));
  std::string modules = context_.runners + "/names";
  if (const std::string* rest = variables->Find("PYTHONPATH"); rest != nullptr && !rest->empty())
    modules += ":" + *rest;
  variables->Set("PYTHONPATH", modules);
  // The installation of Python that the packages are for; empty: one that is no virtual environment.
  variables->Set("CELLA_PACKAGES_FOR", spec_.policy.venv);
}

confine::EnvVars LocalGuest::Variables(const language::Plan& plan) const {
  return LocalVariables(context_.host, host_, spec_.policy, plan);
}

}  // namespace cella::executor
