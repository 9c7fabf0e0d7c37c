// Where the program finds what belongs to it: beside itself in a build tree, else below its prefix.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::engine {

struct Installation {
  std::string launcher;   // cella-launch
  std::string languages;  // languages.toml
  std::string runners;    // what sessions' jails see as /run/cella
};

Result<Installation> FindInstallation();
// Below a prefix, or in the folder of a build.
Result<Installation> FindInstallationIn(const std::string& prefix);

}  // namespace cella::engine
