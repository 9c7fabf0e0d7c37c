#include "cli/package_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "async/signals.h"
#include "async/task_group.h"
#include "cli/install_progress.h"
#include "cli/policy_options.h"
#include "environment/requirement.h"
#include "environment/requirements_file.h"
#include "environment/script_block.h"
#include "installer/base_python.h"
#include "installer/builder_home.h"
#include "language/host_path.h"

namespace cella::cli {
namespace {

// A check for CLI11.
std::string MistakeInRequirement(const std::string& text) {
  auto parsed = environment::ParseRequirement(text);
  return parsed ? "" : parsed.error().message;
}

// What was asked for, from all sources together.
struct Wanted {
  environment::Request request;
  std::optional<environment::NamedEnvironment> named;
};

struct Packages {
  std::vector<std::string> texts;
  std::vector<environment::Requirement> constraints;
  std::vector<std::string> pinned;
  std::string requires_python;
};

Status AddFiles(const PackageOptions& options, const Policy& policy, Packages* packages) {
  const std::vector<std::string> writable = GuestWritable(policy);
  for (const std::string& path : options.requirements) {
    auto real = language::ResolveHostPath(path, writable);
    if (!real) return std::unexpected(std::move(real.error()).WithContext("-r"));
    TRY(environment::RequirementsFile file, environment::ReadRequirementsFile(*real));
    for (const auto& package : file.packages) packages->texts.push_back(package.text);
    packages->constraints.insert(packages->constraints.end(), file.constraints.begin(), file.constraints.end());
    packages->pinned.insert(packages->pinned.end(), file.pinned.begin(), file.pinned.end());
  }
  if (!packages->pinned.empty() && packages->pinned.size() != packages->texts.size()) {
    return Err(ErrorCode::kInvalid,
               "some of the requirements have hashes and some have none: give hashes for all of them, or for none");
  }
  return {};
}

Status AddScript(std::string_view script, Packages* packages) {
  TRY(environment::ScriptReading reading, environment::ReadScriptBlock(script));
  if (!reading.warning.empty()) std::fprintf(stderr, "cella: warning: %s; it is ignored\n", reading.warning.c_str());
  if (!reading.block) return {};
  std::string note;
  for (const auto& package : reading.block->packages) {
    note += (note.empty() ? "" : ", ") + package.text;
    packages->texts.push_back(package.text);
  }
  packages->requires_python = reading.block->requires_python;
  if (!packages->requires_python.empty()) note += (note.empty() ? "Python " : "; Python ") + packages->requires_python;
  if (!note.empty()) std::fprintf(stderr, "cella: the script requires: %s\n", note.c_str());
  return {};
}

Status RefuseContradictions(const PackageOptions& options, const Policy& policy, bool has_packages) {
  const char* asked = !options.environment.empty() ? "--environment" : "packages";
  if (!policy.venv.empty()) {
    return Err(ErrorCode::kInvalid, "{} and --venv exclude each other: both decide which packages there are", asked);
  }
  if (!policy.rootfs.empty()) {
    return Err(ErrorCode::kInvalid,
               "{} and --rootfs exclude each other: an environment rests on a Python of this machine", asked);
  }
  if (!options.environment.empty() && has_packages) {
    return Err(ErrorCode::kInvalid,
               "--environment names a finished environment, and more packages were asked for: use one of them, or make "
               "another environment with: cella env create");
  }
  if (!options.environment.empty() && !policy.python.empty()) {
    return Err(ErrorCode::kInvalid, "--environment has its own Python: leave out --python");
  }
  return {};
}

// Builds with jails of its own; a stop signal ends the build.
async::Task<Result<environment::Ready>> Build(async::Loop& loop, installer::BuilderHome& home, const Wanted& wanted,
                                              const std::vector<std::string>& preload, const InstallView& view) {
  run::StopSource stop(loop);
  async::StopSignals signals(loop);
  async::TaskGroup watcher(loop);
  auto watch = [&]() -> async::Task<void> {
    if (co_await signals.Wait()) (void)stop.Request(StopReason::kCancel);
  };
  watcher.Add(watch());
  InstallProgress progress;
  auto show = [&](std::string_view line) {
    progress.Show(line);
    if (view.show) view.show(line);
  };
  installer::Builder& builder = home.builder();
  Result<environment::Ready> ready = Err(ErrorCode::kInternal, "nothing was built");
  if (wanted.named) {
    ready = co_await builder.BuildLock(wanted.request.python, wanted.named->lock, wanted.named->packages, show,
                                       stop.token());
  } else {
    ready = co_await builder.Build(wanted.request, show, stop.token());
  }
  if (ready && !preload.empty()) {
    auto imported = co_await builder.CheckPreload(*ready, preload, stop.token());
    if (!imported) ready = std::unexpected(std::move(imported.error()));
  }
  progress.Clear();
  if (view.finish) co_await view.finish();
  if (!ready) progress.Explain();
  watcher.Cancel();
  co_await watcher.Join();
  co_await home.Close();
  co_return ready;
}

// The packages of files and options, without an index yet.
Result<Packages> ReadPackages(const PackageOptions& options, const Policy& policy) {
  Packages packages{options.with, {}, {}, {}};
  TRY_VOID(AddFiles(options, policy, &packages));
  return packages;
}

Result<Wanted> Want(Packages packages, const environment::IndexSettings& index) {
  Wanted wanted;
  wanted.request.index = index.Identity();
  wanted.request.constraints = std::move(packages.constraints);
  wanted.request.pinned = std::move(packages.pinned);
  TRY(wanted.request.packages, environment::ParseRequirements(packages.texts, environment::kMaxFileSpecs));
  return wanted;
}

installer::BuilderHome::Rules CommandRules() { return {.source_builds = installer::UserPermitsSourceBuilds()}; }

// What is there already.
std::optional<environment::Ready> Find(const environment::Store& store, const Wanted& wanted, bool refresh) {
  constexpr int64_t kDay = 24 * 60 * 60;
  if (wanted.named) return store.Find(ContentKey(wanted.request.python, wanted.named->lock));
  if (refresh) return std::nullopt;
  auto lock = store.FindLock(RequestKey(wanted.request), kDay);
  if (!lock) return std::nullopt;
  return store.Find(ContentKey(wanted.request.python, *lock));
}

}  // namespace

void DeclarePackageOptions(CLI::App& command, PackageOptions* o) {
  const std::string group = "Packages";
  command.add_option("--with", o->with, "Install a package first, for example 'numpy>=2' (repeatable)")
      ->allow_extra_args(false)
      ->check(EmptinessOf)
      ->check(MistakeInRequirement)
      ->group(group);
  command
      .add_option("-r,--requirements", o->requirements, "Install the packages of a requirements.txt first (repeatable)")
      ->allow_extra_args(false)
      ->check(EmptinessOf)
      ->group(group);
  command.add_option("--environment", o->environment, "Use an environment made with 'cella env create'")
      ->check(EmptinessOf)
      ->group(group);
  command.add_flag("--refresh", o->refresh, "Look for newer versions of the packages")->group(group);
}

Result<UsedEnvironment> UseEnvironment(async::Loop& loop, const PackageOptions& options, std::string_view script,
                                       Policy* policy, const InstallView& view) {
  TRY(Packages packages, ReadPackages(options, *policy));
  if (options.environment.empty()) TRY_VOID(AddScript(script, &packages));
  UsedEnvironment used;
  const bool asked = !packages.texts.empty() || !packages.requires_python.empty() || !options.requirements.empty();
  if (!asked && options.environment.empty()) return used;
  TRY_VOID(RefuseContradictions(options, *policy, asked));

  TRY(std::string state_dir, installer::CommandStateDirectory());
  TRY(environment::Store store, environment::Store::Open(state_dir));
  TRY(language::HostEnv host, installer::AskingHost(state_dir));
  TRY(environment::IndexSettings index, installer::OperatorIndex());
  const std::string required = packages.requires_python;
  TRY(Wanted wanted, Want(std::move(packages), index));
  std::string python = policy->python;
  if (!options.environment.empty()) {
    TRY(wanted.named, store.FindName(options.environment));
    python = wanted.named->python;
    used.preload = wanted.named->preload;
  }
  TRY(wanted.request.python, installer::ChooseBasePython(host, python, required));

  used.ready = Find(store, wanted, options.refresh);
  if (!used.ready) {
    TRY(std::unique_ptr<installer::BuilderHome> home,
        installer::BuilderHome::Open(loop, store, std::move(index), CommandRules()));
    home->builder().set_refresh(options.refresh);
    TRY(used.ready, loop.Run(Build(loop, *home, wanted, {}, view)));
  }
  policy->venv = used.ready->venv;
  policy->python.clear();
  used.opened.readable = store.ready();
  return used;
}

Result<MadeEnvironment> MakeEnvironment(async::Loop& loop, const PackageOptions& options, const Policy& policy,
                                        const std::vector<std::string>& preload) {
  TRY(Packages packages, ReadPackages(options, policy));
  TRY(std::string state_dir, installer::CommandStateDirectory());
  TRY(environment::Store store, environment::Store::Open(state_dir));
  TRY(language::HostEnv host, installer::AskingHost(state_dir));
  TRY(environment::IndexSettings index, installer::OperatorIndex());
  TRY(Wanted wanted, Want(std::move(packages), index));
  TRY(wanted.request.python, installer::ChooseBasePython(host, policy.python, ""));
  TRY(std::unique_ptr<installer::BuilderHome> home,
      installer::BuilderHome::Open(loop, std::move(store), std::move(index), CommandRules()));
  home->builder().set_refresh(options.refresh);
  TRY(environment::Ready ready, loop.Run(Build(loop, *home, wanted, preload, {})));
  return MadeEnvironment{std::move(ready), wanted.request.python.executable};
}

}  // namespace cella::cli
