// `cella serve`: the HTTP server, from options and cella.toml to its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace cella::cli {

struct ServeCommandOptions {
  std::vector<std::string> listen;
  std::optional<std::string> config, state_dir, token_file, tls_certificate, tls_key, log_level;
  std::optional<int> exit_with, token_fd;
  bool no_auth = false;
  bool insecure_http = false;
  bool check_config = false;
};

void DeclareServeOptions(CLI::App& command, ServeCommandOptions* options);
int ServeCommand(const ServeCommandOptions& options);

}  // namespace cella::cli
