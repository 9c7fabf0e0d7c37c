#include "executor/subprocess/kernel_list.h"

#include <unistd.h>

#include <filesystem>

namespace cella::executor {
namespace {

bool IsProgram(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

bool IsOnPath(const std::string& name, std::string_view path) {
  while (!path.empty()) {
    const size_t end = path.find(':');
    const std::string directory(path.substr(0, end));
    if (directory.starts_with('/') && IsProgram(directory + "/" + name)) return true;
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
  }
  return false;
}

std::string ProblemOf(const jupyter::Kernelspec& spec, const language::HostEnv& host, const std::string& python) {
  const std::string& program = spec.argv.front();
  if (program == "python" || program == "python3") {
    return python.empty() ? "there is no Python: install one, or name it with --python" : "";
  }
  if (program.find('/') != std::string::npos) {
    return IsProgram(program) ? "" : fmt::format("'{}' is no program that can be started", program);
  }
  return IsOnPath(program, host.path) ? "" : fmt::format("'{}' is not on PATH", program);
}

}  // namespace

std::vector<KernelStatus> ListKernels(const jupyter::KernelHost& kernels, const language::HostEnv& host,
                                      const std::string& python) {
  const std::string prefix = python.empty() ? "" : std::filesystem::path(python).parent_path().parent_path().string();
  std::vector<KernelStatus> all;
  for (jupyter::Kernelspec& spec : jupyter::ListKernelspecs(jupyter::DataDirectories(kernels, prefix))) {
    std::string problem = ProblemOf(spec, host, python);
    all.push_back({std::move(spec), std::move(problem)});
  }
  return all;
}

}  // namespace cella::executor
