#include "cli/serve_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "async/task.h"
#include "cella/outcome.h"
#include "cli/policy_options.h"
#include "engine/taskweaver.h"
#include "server/config_reader.h"
#include "server/config_render.h"
#include "server/listen_address.h"
#include "server/serve.h"

namespace cella::cli {
namespace {

struct Loaded {
  server::Config config;
  bool token_file_named = false;
};

Result<Loaded> LoadConfig(const ServeCommandOptions& options) {
  Loaded loaded;
  if (options.token_fd && (options.token_file || options.no_auth)) {
    return Err(ErrorCode::kInvalid, "give one of --token-fd, --token-file and --no-auth");
  }
  if (options.config && options.config->ends_with(".json")) {
    // TaskWeaver's: the file is the operator's permission for the executor that it names.
    TRY(const engine::TaskWeaver read, engine::ReadTaskWeaver(*options.config));
    loaded.config.allow.executors.push_back(read.executor);
    loaded.config.defaults.executor = read.executor;
    read.Apply(&loaded.config.defaults.policy);
  } else if (options.config) {
    TRY(loaded.config, server::ReadConfig(*options.config));
  }
  server::ConfigOverrides overrides;
  overrides.listen = options.listen;
  overrides.state_dir = options.state_dir;
  overrides.token_file = options.token_file;
  overrides.tls_certificate = options.tls_certificate;
  overrides.tls_key = options.tls_key;
  overrides.log_level = options.log_level;
  overrides.no_auth = options.no_auth;
  overrides.insecure_http = options.insecure_http;
  std::array<char, 4096> here = {};
  overrides.directory = getcwd(here.data(), here.size()) == nullptr ? "/" : here.data();
  TRY_VOID(server::ApplyOverrides(overrides, &loaded.config));
  loaded.token_file_named = !loaded.config.server.token_file.empty();
  server::CompleteConfig(server::Surroundings::FromProcess(), &loaded.config);
  TRY_VOID(server::CheckConfig(loaded.config));
  return loaded;
}

int Fail(const Error& error) {
  std::fprintf(stderr, "cella: %s\n", error.message.c_str());
  return kExitRejected;
}

}  // namespace

void DeclareServeOptions(CLI::App& command, ServeCommandOptions* o) {
  command.footer(
      R"(Without options it listens on a Unix socket that only you and root can use, and needs no token:

  cella serve &
  cella session new

Over TCP every client needs a token:

  cella token new laptop
  cella serve --listen 127.0.0.1:8080

SIGTERM drains: no new runs, those that are on get a grace, then it ends.)");
  command.add_option("--listen", o->listen, "unix:PATH or HOST:PORT; port 0 finds a free one (repeatable)")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        auto address = server::ParseListenAddress(text);
        return address || text.starts_with("unix:") ? "" : address.error().message;
      });
  OptionalText(command, "--config", &o->config,
               "Configuration file (cella.toml, or a taskweaver_config.json); options win over it");
  OptionalText(command, "--state-dir", &o->state_dir, "Where the registry and the logs of runs are kept");
  OptionalText(command, "--token-file", &o->token_file, "Tokens of the clients, as 'cella token' writes them");
  OptionalText(command, "--tls-certificate", &o->tls_certificate, "Serve TCP with TLS: the certificate (PEM)");
  OptionalText(command, "--tls-key", &o->tls_key, "and its key");
  OptionalText(command, "--log-level", &o->log_level, "error, warning, info or debug")
      ->check(CLI::IsMember({"error", "warning", "info", "debug"}));
  command.add_option("--exit-with", o->exit_with, "End when this process (PID) does, without a grace")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--token-fd", o->token_fd,
                  "Read the tokens from this inherited descriptor; then every client needs one, also on Unix sockets")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--no-auth", o->no_auth, "Demand no token of any client; loopback addresses only");
  command.add_flag("--insecure-http", o->insecure_http,
                   "Listen without TLS on addresses that other machines can reach");
  command.add_flag("--check-config", o->check_config, "Print the configuration as it holds, and end");
}

int ServeCommand(const ServeCommandOptions& options) {
  auto loaded = LoadConfig(options);
  if (!loaded) return Fail(loaded.error());
  if (options.check_config) {
    std::fputs(server::RenderConfig(loaded->config).c_str(), stdout);
    return 0;
  }
  async::Loop loop;
  server::ServeOptions serve;
  serve.config = std::move(loaded->config);
  serve.token_file_named = loaded->token_file_named;
  serve.exit_with = options.exit_with;
  serve.token_fd = options.token_fd;
  auto served = loop.Run(server::Serve(loop, std::move(serve)));
  return served ? 0 : Fail(served.error());
}

}  // namespace cella::cli
