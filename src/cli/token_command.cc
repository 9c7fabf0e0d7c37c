#include "cli/token_command.h"

#include <string.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "os/io.h"
#include "server/config.h"
#include "server/config_reader.h"
#include "server/token_file.h"
#include "server/tokens.h"

namespace cella::cli {
namespace {

Status New(const std::string& file, const std::string& client) {
  TRY(std::string token, server::AddToken(file, client));
  token += '\n';
  Status printed = os::WriteAll(STDOUT_FILENO, token);
  ::explicit_bzero(token.data(), token.size());
  if (!printed) {
    // It was not printed, and cannot be printed later.
    (void)server::RemoveToken(file, client);
    return std::unexpected(std::move(printed.error()).WithContext("the token could not be shown, so there is none"));
  }
  std::fprintf(stderr, "cella: shown only this once; '%s' keeps its hash. A running server reads the file on SIGHUP.\n",
               file.c_str());
  return {};
}

Status List(const std::string& file) {
  TRY(server::TokenSet set, server::TokenSet::Load(file));
  std::string text;
  for (const server::TokenSet::Entry& entry : set.entries()) {
    text += fmt::format("{:<24} {}\n", entry.client, entry.hashed ? "hash" : "readable in the file");
  }
  return os::WriteAll(STDOUT_FILENO, text);
}

Result<std::string> FileOf(const TokenOptions& options) {
  if (!options.file.empty()) return options.file;
  server::Config config;
  if (!options.config.empty()) {
    TRY(config, server::ReadConfig(options.config));
  }
  if (config.server.no_auth) {
    return Err(ErrorCode::kInvalid, "'{}' has server.no_auth: its server asks for no tokens", options.config);
  }
  server::CompleteConfig(server::Surroundings::FromProcess(), &config);
  return config.server.token_file;
}

Status Do(const TokenOptions& options) {
  TRY(std::string file, FileOf(options));
  switch (options.action) {
    case TokenOptions::Action::kNew: return New(file, options.client);
    case TokenOptions::Action::kList: return List(file);
    case TokenOptions::Action::kRemove: return server::RemoveToken(file, options.client);
  }
  return {};
}

}  // namespace

void DeclareTokenOptions(CLI::App& command, TokenOptions* o) {
  command.require_subcommand(1);
  command.footer(
      "Examples:\n"
      "  cella token new alice\n"
      "  cella token new bob --config /etc/cella/cella.toml\n"
      "  cella token ls --file /etc/cella/tokens");
  auto add = [&](const char* name, const char* help, TokenOptions::Action action) {
    CLI::App* sub = command.add_subcommand(name, help);
    if (action != TokenOptions::Action::kList) {
      sub->add_option("NAME", o->client, "The client's name")->required();
    }
    auto* file = sub->add_option("--file", o->file, "The token file (default: tokens in the server's state directory)");
    sub->add_option("--config", o->config, "The server's cella.toml, which names the file")->excludes(file);
    sub->callback([o, action] { o->action = action; });
  };
  add("new", "Print a fresh token, once, and keep its hash", TokenOptions::Action::kNew);
  add("ls", "List the clients", TokenOptions::Action::kList);
  add("rm", "Remove a client", TokenOptions::Action::kRemove);
}

int TokenCommand(const TokenOptions& options) {
  Status done = Do(options);
  if (done) return 0;
  std::fprintf(stderr, "cella: %s\n", done.error().message.c_str());
  return 1;
}

}  // namespace cella::cli
