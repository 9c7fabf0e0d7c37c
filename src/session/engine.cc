#include "session/engine.h"

#include <cstdlib>

#include "executor/local/local_executor.h"
#include "executor/sandbox/sandbox_executor.h"
#include "language/host_env.h"
#include "session/installation.h"

extern char** environ;

namespace cella::session {
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

}  // namespace

Result<std::unique_ptr<Engine>> MakeEngine(async::Loop& loop, ExecutorKind kind, executor::PoolLimits pool,
                                           std::vector<std::string> guest_writable) {
  TRY(Installation installation, FindInstallation());
  // Before there is a second process: in a delegated cgroup the probe moves this one, which must be alone there.
  os::CgroupHost cgroups = os::CgroupHost::Probe();
  // The launcher starts on another processor while this one goes on.
  TRY(executor::Launch started, executor::Launch::Start(loop, installation.launcher));
  auto engine = std::make_unique<Engine>();
  TRY(engine->table, language::LanguageTable::Load(installation.languages));
  cgroups.Sweep();
  language::HostEnv host = language::HostEnv::FromProcess();
  host.guest_writable.insert(host.guest_writable.end(), std::make_move_iterator(guest_writable.begin()),
                             std::make_move_iterator(guest_writable.end()));
  executor::LaunchContext context{loop,
                                  installation.launcher,
                                  installation.runners,
                                  engine->table,
                                  std::move(host),
                                  std::move(cgroups),
                                  std::move(started)};
  if (kind == ExecutorKind::kLocal) {
    engine->executor = std::make_unique<executor::LocalExecutor>(std::move(context), ObserveLocalHost());
  } else {
    engine->executor = std::make_unique<executor::SandboxExecutor>(std::move(context), pool);
  }
  return engine;
}

}  // namespace cella::session
