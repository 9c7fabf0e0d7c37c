// Where the program finds what belongs to it: beside itself in a build tree, else below its prefix.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::engine {

struct Installation {
  std::string launcher;   // cella-launch
  std::string languages;  // languages.toml
  std::string runners;    // what sessions' jails see as /run/cella
  // Of libcella alone, empty where they are not installed:
  std::string python_plugin;    // cella-python.so
  std::string python_packages;  // the directory with the Python package
};

Result<Installation> FindInstallation();
// Below a prefix, or in the folder of a build.
Result<Installation> FindInstallationIn(const std::string& prefix);

}  // namespace cella::engine
