// `cella workflows`: lists, shows and approves the workflows of a storage.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cella::cli {

struct WorkflowsOptions {
  std::string command;  // "ls", "show", "approve"
  std::string name;
  std::string storage;
  std::string sha256;
  bool json = false;
};

void DeclareWorkflowsOptions(CLI::App& command, WorkflowsOptions* options);

// The exit status of the program.
int WorkflowsCommand(const WorkflowsOptions& options);

}  // namespace cella::cli
