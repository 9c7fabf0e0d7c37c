#include "installer/builder_home.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "confine/ask_program.h"
#include "engine/default_directories.h"
#include "engine/installation.h"
#include "os/io.h"

namespace cella::installer {
namespace {

constexpr uint64_t kMaxScript = 1 << 20;

std::string Variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

Result<std::string> OperatorUv() {
  std::string named = Variable("CELLA_UV");
  if (named.empty()) return named;
  std::error_code error;
  std::string real = std::filesystem::canonical(named, error);
  if (error || ::access(real.c_str(), X_OK) < 0) {
    return Err(ErrorCode::kNotFound, "CELLA_UV names '{}', which is not a program", named);
  }
  return real;
}

}  // namespace

Result<std::string> CommandStateDirectory() {
  std::string state_dir = Variable("CELLA_STATE_DIR");
  if (state_dir.empty()) state_dir = engine::UserStateDirectory(engine::Surroundings::FromProcess());
  if (!state_dir.starts_with('/')) {
    return Err(ErrorCode::kInvalid,
               "there is no place for environments ('{}'): set CELLA_STATE_DIR to an absolute path, or HOME",
               state_dir);
  }
  return std::filesystem::path(state_dir).lexically_normal().native();
}

Result<environment::IndexSettings> OperatorIndex() { return environment::ReadIndexSettings(Variable); }

bool UserPermitsSourceBuilds() { return Variable("CELLA_SOURCE_BUILDS") != "off"; }

Result<language::HostEnv> AskingHost(const std::string& state_dir) {
  TRY(engine::Installation installation, engine::FindInstallation());
  language::HostEnv host = language::HostEnv::FromProcess(state_dir);
  host.asker = confine::MakeProgramAsker(installation.launcher);
  return host;
}

Result<std::unique_ptr<BuilderHome>> BuilderHome::Open(async::Loop& loop, environment::Store store,
                                                       environment::IndexSettings index, Rules rules) {
  TRY(engine::Installation installation, engine::FindInstallation());
  InstallerScripts scripts;
  const std::string directory = installation.runners + "/installer/";
  TRY(scripts.installer, os::ReadFile(directory + "installer.py", kMaxScript));
  TRY(scripts.sources, os::ReadFile(directory + "sources.py", kMaxScript));
  TRY(scripts.build_source, os::ReadFile(directory + "build_source.py", kMaxScript));
  BuilderSettings settings;
  TRY(settings.uv, OperatorUv());
  settings.index = std::move(index);
  settings.rules = std::move(rules.packages);
  settings.bounds = rules.bounds;
  settings.source_builds = rules.source_builds;
  engine::EngineOptions options;
  options.opened = {.readable = store.root(), .writable = store.work()};
  std::unique_ptr<BuilderHome> home(new BuilderHome());
  TRY(home->engine_, engine::MakeEngine(loop, ExecutorKind::kSandbox, std::move(options)));
  home->builder_ = std::make_unique<Builder>(loop, *home->engine_->executor, std::move(store), std::move(settings),
                                             std::move(scripts));
  return home;
}

}  // namespace cella::installer
