#include "cli/bench_programs.h"

#include "confine/ask_program.h"
#include "engine/installation.h"
#include "language/host_env.h"
#include "language/host_program.h"
#include "language/python_search.h"
#include "language/tool.h"
#include "language/visible.h"

extern char** environ;

namespace cella::cli {

Result<language::Python> BenchPython(const std::string& wanted) {
  language::PythonRequest request;
  request.python = wanted;
  request.host = language::HostEnv::FromProcess();
  request.host.virtual_env.clear();
  TRY(engine::Installation installation, engine::FindInstallation());
  request.host.asker = confine::MakeProgramAsker(installation.launcher);
  TRY(language::Python python, language::ResolvePython(request));
  // A version manager's directory is the caller's own.
  auto trusted = language::CheckHostProgram(python.executable, language::PythonRoots(request.host));
  if (trusted) return python;
  return std::unexpected(
      std::move(trusted.error()).WithContext(fmt::format("'{}' is not run without a jail", python.executable)));
}

std::string FindHostProgram(std::string_view name) {
  for (const std::string& program : language::FindOnPath(name, language::StandardPath())) {
    if (language::CheckHostProgram(program)) return program;
  }
  return "";
}

Result<os::Process> StartOnHost(const std::vector<std::string>& argv, std::vector<os::SpawnOptions::Fd> fds) {
  os::SpawnOptions options;
  options.program = argv.front();
  options.argv = argv;
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.fds = std::move(fds);
  options.cwd = "/";  // python -c imports from the current directory, where a guest may have left a module
  return os::Process::Spawn(options);
}

}  // namespace cella::cli
