#include "engine/engine.h"

#include <cstdlib>

#include "confine/ask_program.h"
#include "engine/guarded_paths.h"
#include "engine/installation.h"
#include "engine/kernels.h"
#include "executor/container/container_executor.h"
#include "executor/inprocess/inprocess_executor.h"
#include "executor/local/local_executor.h"
#include "executor/sandbox/sandbox_executor.h"
#include "executor/subprocess/subprocess_executor.h"
#include "language/host_env.h"

extern char** environ;

namespace cella::engine {
namespace {

std::string Value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

executor::LocalHost ObserveLocalHost() {
  executor::LocalHost local;
  local.user = Value("USER");
  local.lang = Value("LANG");
  local.tmpdir = Value("TMPDIR").empty() ? "/tmp" : Value("TMPDIR");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view pair = *entry;
    size_t equals = pair.find('=');
    if (equals != std::string_view::npos) local.whole.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return local;
}

// One line for each row of kExecutors, in the same order.
using MakeExecutor = std::unique_ptr<run::Executor> (*)(confine::LaunchContext context, const EngineOptions& options);
constexpr MakeExecutor kMakers[] = {
    [](confine::LaunchContext context, const EngineOptions& options) -> std::unique_ptr<run::Executor> {
      return std::make_unique<executor::SandboxExecutor>(std::move(context), options.pool);
    },
    [](confine::LaunchContext context, const EngineOptions&) -> std::unique_ptr<run::Executor> {
      return std::make_unique<executor::LocalExecutor>(std::move(context), ObserveLocalHost());
    },
    [](confine::LaunchContext context, const EngineOptions&) -> std::unique_ptr<run::Executor> {
      return std::make_unique<executor::ContainerExecutor>(std::move(context));
    },
    [](confine::LaunchContext context, const EngineOptions& options) -> std::unique_ptr<run::Executor> {
      jupyter::KernelHost kernels = ObserveKernelHost(context.host.home);
      return std::make_unique<executor::SubprocessExecutor>(std::move(context), ObserveLocalHost(), std::move(kernels),
                                                            options.kernel_environments, options.pool.parked);
    },
    [](confine::LaunchContext context, const EngineOptions&) -> std::unique_ptr<run::Executor> {
      return std::make_unique<executor::InProcessExecutor>(std::move(context), ObserveLocalHost());
    },
};
static_assert(std::size(kMakers) == kExecutorCount);

}  // namespace

std::shared_ptr<language::GuestDirectories> MakeGuestDirectories(const std::string& state_dir) {
  return std::make_shared<language::GuestDirectories>(language::HostEnv::FromProcess(state_dir).cache_dir);
}

Result<std::unique_ptr<Engine>> MakeEngine(async::Loop& loop, ExecutorKind kind, EngineOptions options) {
  Installation installation;
  if (options.installation) {
    installation = *options.installation;
  } else {
    TRY(installation, FindInstallation());
  }
  // Before there is a second process: in a delegated cgroup the probe moves this one, which must be alone there.
  os::CgroupHost cgroups = os::CgroupHost::Probe(options.placement);
  // The launcher starts on another processor while this one goes on.
  TRY(confine::Launcher started, confine::Launcher::Start(loop, installation.launcher));
  auto engine = std::make_unique<Engine>();
  TRY(engine->table, language::LanguageTable::Load(installation.languages));
  cgroups.Sweep();
  language::HostEnv host = language::HostEnv::FromProcess(options.state_dir);
  host.asker = confine::MakeProgramAsker(installation.launcher);
  host.guest_writable.insert(host.guest_writable.end(), std::make_move_iterator(options.guest_writable.begin()),
                             std::make_move_iterator(options.guest_writable.end()));
  for (confine::GuardedPath& path : GuardedPaths(installation, host.cache_dir))
    options.guarded.push_back(std::move(path));
  auto guests = options.guest_directories ? std::move(options.guest_directories)
                                          : std::make_shared<language::GuestDirectories>(host.cache_dir);
  confine::LaunchContext context{loop,
                                 installation.launcher,
                                 installation.runners,
                                 engine->table,
                                 std::move(host),
                                 std::move(options.guarded),
                                 std::move(options.opened),
                                 std::move(options.layers),
                                 std::move(cgroups),
                                 std::move(started)};
  context.guest_directories = std::move(guests);
  engine->executor = kMakers[IndexOf(kind)](std::move(context), options);
  return engine;
}

}  // namespace cella::engine
