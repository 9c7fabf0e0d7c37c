#include "session/installation.h"

#include <unistd.h>

#include <initializer_list>

#include "os/io.h"

namespace cella::session {
namespace {

Result<std::string> FirstReadable(std::initializer_list<std::string> candidates) {
  for (const std::string& path : candidates) {
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return Err(ErrorCode::kNotFound, "'{}' is missing: the installation is incomplete", *candidates.begin());
}

}  // namespace

Result<Installation> FindInstallation() {
  TRY(std::string here, os::ProgramDirectory());
  Installation installation;
  TRY(installation.launcher, FirstReadable({here + "/cella-launch", here + "/../libexec/cella/cella-launch"}));
  TRY(installation.languages, FirstReadable({here + "/languages.toml", here + "/../share/cella/languages.toml"}));
  TRY(installation.runners, FirstReadable({here + "/runners", here + "/../libexec/cella/runners"}));
  return installation;
}

}  // namespace cella::session
