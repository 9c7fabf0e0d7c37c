#include "cli/bench_programs.h"

#include "language/host_env.h"

extern char** environ;

namespace cella::cli {

Result<language::Python> BenchPython(const std::string& wanted) {
  language::PythonRequest request;
  request.python = wanted;
  request.host = language::HostEnv::FromProcess();
  request.host.virtual_env.clear();
  return language::ResolvePython(request);
}

Result<os::Process> StartOnHost(const std::vector<std::string>& argv, std::vector<os::SpawnOptions::Fd> fds) {
  os::SpawnOptions options;
  options.program = argv.front();
  options.argv = argv;
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.fds = std::move(fds);
  return os::Process::Spawn(options);
}

}  // namespace cella::cli
