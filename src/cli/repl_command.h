// `cella repl`: a session for people at a terminal, for one cell from a pipe, or (--json) for a program at the other
// end of two pipes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/package_options.h"
#include "cli/policy_options.h"

namespace cella::cli {

struct ReplOptions {
  TypedKeys policy;
  PackageOptions packages;
  std::string lang = "python";
  std::optional<std::string> images;
  bool no_history = false;
  bool json = false;
};

void DeclareReplOptions(CLI::App& command, ReplOptions* options);

// The exit status of the program.
int ReplCommand(const ReplOptions& options);

}  // namespace cella::cli
