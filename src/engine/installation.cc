#include "engine/installation.h"

#include <unistd.h>

#include <initializer_list>

#include "os/io.h"

namespace cella::engine {
namespace {

Result<std::string> FirstReadable(std::initializer_list<std::string> candidates) {
  for (const std::string& path : candidates) {
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return Err(ErrorCode::kNotFound, "'{}' is missing: the installation is incomplete", *candidates.begin());
}

// `programs`: the directory of a build in which they all are.
Result<Installation> Find(const std::string& programs, const std::string& prefix) {
  Installation installation;
  TRY(installation.launcher, FirstReadable({programs + "/cella-launch", prefix + "/libexec/cella/cella-launch"}));
  TRY(installation.languages, FirstReadable({programs + "/languages.toml", prefix + "/share/cella/languages.toml"}));
  TRY(installation.runners, FirstReadable({programs + "/runners", prefix + "/libexec/cella/runners"}));
  installation.python_plugin =
      FirstReadable({programs + "/cella-python.so", prefix + "/libexec/cella/cella-python.so"}).value_or("");
  installation.python_packages = FirstReadable({programs + "/python", prefix + "/share/cella/python"}).value_or("");
  return installation;
}

}  // namespace

Result<Installation> FindInstallation() {
  TRY(std::string here, os::ProgramDirectory());
  return Find(here, here + "/..");
}

Result<Installation> FindInstallationIn(const std::string& prefix) { return Find(prefix + "/bin", prefix); }

}  // namespace cella::engine
