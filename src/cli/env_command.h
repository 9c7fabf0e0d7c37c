// `cella env`: makes, lists, shows and removes the Python environments of this user.
#pragma once

#include <string>
#include <vector>

#include "cli/package_options.h"

namespace CLI {
class App;
}

namespace cella::cli {

struct EnvOptions {
  std::string command;  // "create", "ls", "show", "rm", "gc"
  std::string name;
  std::string python;
  PackageOptions packages;
  std::vector<std::string> preload;
  bool replace = false;
  bool json = false;
  bool lock = false;
  std::string unused = "720h";
};

void DeclareEnvOptions(CLI::App& command, EnvOptions* options);

// The exit status of the program.
int EnvCommand(const EnvOptions& options);

}  // namespace cella::cli
