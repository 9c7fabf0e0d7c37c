#include "engine/kernels.h"

#include <cstdlib>

#include "language/python.h"

namespace cella::engine {
namespace {

std::string Value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

jupyter::KernelHost ObserveKernelHost(const std::string& home) {
  return {.jupyter_path = Value("JUPYTER_PATH"), .jupyter_data_dir = Value("JUPYTER_DATA_DIR"), .home = home};
}

std::vector<executor::KernelStatus> ListKernels(const std::string& python, const std::string& venv) {
  language::PythonRequest request;
  request.python = python;
  request.venv = venv;
  request.host = language::HostEnv::FromProcess();
  request.destination = language::Destination::kHost;
  const auto found = language::ResolvePython(request);
  return executor::ListKernels(ObserveKernelHost(request.host.home), request.host, found ? found->executable : "");
}

}  // namespace cella::engine
