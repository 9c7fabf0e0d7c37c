// `cella token new|ls|rm`: the clients of a server, in its token file.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cella::cli {

struct TokenOptions {
  enum class Action { kNew, kList, kRemove } action = Action::kList;
  std::string client;
  std::string file;    // empty: what the server's configuration says
  std::string config;  // empty: the server has none
};

void DeclareTokenOptions(CLI::App& command, TokenOptions* options);

// The exit status: 0, or 1 with words on standard error.
int TokenCommand(const TokenOptions& options);

}  // namespace cella::cli
