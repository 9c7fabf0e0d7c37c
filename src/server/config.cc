#include "server/config.h"

#include <algorithm>

#include "base/units.h"
#include "engine/installation.h"
#include "language/host_path.h"
#include "language/visible.h"
#include "server/config_keys.h"
#include "server/listen_address.h"
#include "server/origin.h"

namespace cella::server {
namespace {

Status CheckListen(const Config& config) {
  for (const std::string& text : config.server.listen) {
    auto address = ParseListenAddress(text);
    if (!address) return std::unexpected(std::move(address.error()).WithContext("server.listen"));
    if (config.server.no_auth && !address->is_unix() && !address->is_loopback()) {
      return Err(
          ErrorCode::kInvalid,
          "server.listen: '{}' can be reached from other machines, and server.no_auth lets every client in: listen "
          "on 127.0.0.1 or a Unix socket, or use a token file",
          text);
    }
    if (!address->is_unix() && !address->is_loopback() && config.server.tls_certificate.empty() &&
        !config.server.insecure_http) {
      return Err(
          ErrorCode::kInvalid,
          "server.listen: '{}' can be reached from other machines, and without TLS the tokens and the code cross "
          "the network in plain text: give --tls-certificate and --tls-key, listen on 127.0.0.1 behind a proxy "
          "that speaks TLS, or give --insecure-http (server.insecure_http) where the network itself is trusted",
          text);
    }
    if (config.allow.whole_machine && !address->is_unix()) {
      return Err(ErrorCode::kInvalid,
                 "allow.whole_machine: clients of '{}' need not be the server's user: listen on Unix sockets alone, or "
                 "name directories in allow.mounts",
                 text);
    }
  }
  return {};
}

Status CheckOrigins(const Config& config) {
  for (const std::string& origin : config.server.allowed_origins) {
    if (origin == "*") {
      if (!config.server.no_auth) continue;
      return Err(ErrorCode::kInvalid,
                 "server.allowed_origins: \"*\" with server.no_auth lets every web page that a user opens on this "
                 "machine run code: name the origins");
    }
    if (!ParseOrigin(origin)) {
      return Err(ErrorCode::kInvalid, "server.allowed_origins: '{}' is not an origin such as https://app.example:8443",
                 origin);
    }
  }
  for (const std::string& host : config.server.allowed_hosts) {
    if (host != "*" && !ParseAuthority(host)) {
      return Err(ErrorCode::kInvalid, "server.allowed_hosts: '{}' is not a host name or address", host);
    }
  }
  return {};
}

// What guests may write to must hold nothing that the server trusts.
Status CheckAllowedDirectories(const Config& config) {
  const auto& server = config.server;
  std::vector<std::pair<const char*, std::string>> ours = {
      {"server.state_dir", server.state_dir},   {"server.runtime_dir", server.runtime_dir},
      {"server.token_file", server.token_file}, {"server.tls_certificate", server.tls_certificate},
      {"server.tls_key", server.tls_key},       {"storage.directory", config.storage.directory}};
  if (auto installation = engine::FindInstallation()) {
    for (const std::string& path : {installation->launcher, installation->languages, installation->runners}) {
      ours.emplace_back("programs of cella", path);
    }
  }
  // A user who can replace the socket can answer in our name.
  for (const std::string& text : server.listen) {
    if (auto address = ParseListenAddress(text)) ours.emplace_back("server.listen", address->path);
  }
  for (const std::string& allowed : config.allow.mounts) {
    std::vector<std::string> names = {language::Normalize(allowed, "/")};
    if (std::string real = language::RealPath(allowed); !real.empty()) names.push_back(std::move(real));
    if (std::ranges::find(names, "/") != names.end()) {
      return Err(ErrorCode::kInvalid, "allow.mounts: '{}' would allow the whole machine: name directories", allowed);
    }
    for (const auto& [key, path] : ours) {
      // A file that is still to be made is known by its directory.
      if (path.empty() ||
          !(language::LiesBelowAny(path, names) || language::LiesBelowAny(language::DirName(path), names))) {
        continue;
      }
      return Err(ErrorCode::kInvalid, "allow.mounts: '{}' contains {} ('{}'), which guests must not reach", allowed,
                 key, path);
    }
    if (const std::vector<std::string> storage = {config.storage.directory};
        !storage.front().empty() && language::LiesBelowAny(allowed, storage)) {
      return Err(ErrorCode::kInvalid, "allow.mounts: '{}' lies in storage.directory, which guests must not reach",
                 allowed);
    }
    // The server runs an interpreter to ask it about itself.
    for (const std::string& python : config.allow.pythons) {
      const std::vector<std::string> pythons = {python};
      if (!language::LiesBelowAny(python, names) && !language::LiesBelowAny(allowed, pythons)) continue;
      return Err(ErrorCode::kInvalid,
                 "allow.pythons: '{}' and allow.mounts '{}' overlap: a guest could put an interpreter there", python,
                 allowed);
    }
  }
  return {};
}

Status CheckMaxima(const Config& config) {
  for (const policy::Key& key : policy::Keys()) {
    if (key.ask != policy::Ask::kUpToMaximum || !policy::Exceeds(key, config.defaults, config.maxima)) continue;
    const std::string_view name = policy::LastPart(key.name);
    return Err(ErrorCode::kInvalid, "{}.{} is {}, more than the {} of maxima.{}", key.section, name,
               policy::Show(key, config.defaults), policy::Show(key, config.maxima), name);
  }
  return {};
}

Status CheckDefaults(const Config& config) {
  const SessionSpec& defaults = config.defaults;
  if (std::ranges::find(config.allow.executors, defaults.executor) == config.allow.executors.end()) {
    return Err(ErrorCode::kInvalid, "policy.executor is '{}', which allow.executors does not list",
               ToString(defaults.executor));
  }
  if (defaults.policy.network == Network::kHost && !config.allow.network_host) {
    return Err(ErrorCode::kInvalid, "policy.network is 'host': set allow.network_host = true as well");
  }
  if (!defaults.policy.venv.empty() && !defaults.policy.python.empty()) {
    return Err(ErrorCode::kInvalid, "policy.venv has its own interpreter: leave policy.python out");
  }
  return {};
}

}  // namespace

std::vector<ExecutorKind> AllowedByDefault() {
  std::vector<ExecutorKind> kinds;
  for (const ExecutorRow& row : kExecutors) {
    if (row.allowed) kinds.push_back(row.kind);
  }
  return kinds;
}

std::vector<ExecutorKind> Config::UsableExecutors() const {
  std::vector<ExecutorKind> kinds;
  for (const ExecutorRow& row : kExecutors) {
    const bool listed = std::ranges::find(allow.executors, row.kind) != allow.executors.end();
    if (listed || (allow.jailed_kernels && policy::Takes(row.kind, "jail"))) kinds.push_back(row.kind);
  }
  return kinds;
}

const QuotaLimits& Config::QuotaOf(std::string_view client) const {
  auto found = client_quotas.find(client);
  return found == client_quotas.end() ? quota : found->second;
}

Status ApplyOverrides(const ConfigOverrides& overrides, Config* config) {
  auto& server = config->server;
  auto path = [&](const std::optional<std::string>& given, std::string* field) {
    if (given) *field = given->empty() ? "" : language::Normalize(*given, overrides.directory);
  };
  path(overrides.state_dir, &server.state_dir);
  path(overrides.runtime_dir, &server.runtime_dir);
  path(overrides.tls_certificate, &server.tls_certificate);
  path(overrides.tls_key, &server.tls_key);
  path(overrides.token_file, &server.token_file);
  if (!overrides.listen.empty()) {
    server.listen.clear();
    for (const std::string& text : overrides.listen) {
      bool relative = text.starts_with("unix:") && text.size() > 5 && text[5] != '/';
      server.listen.push_back(relative ? "unix:" + language::Normalize(text.substr(5), overrides.directory) : text);
    }
  }
  // Each of the two takes the other's place: the one on the command line decides.
  if (overrides.token_file) server.no_auth = false;
  if (overrides.no_auth) {
    if (overrides.token_file) return Err(ErrorCode::kInvalid, "give either --token-file or --no-auth, not both");
    server.no_auth = true;
    server.token_file.clear();
  }
  server.insecure_http = server.insecure_http || overrides.insecure_http;
  if (overrides.log_level) {
    auto level = ParseLogLevel(*overrides.log_level);
    if (!level) {
      return Err(ErrorCode::kInvalid, "--log-level: '{}' is none of error, warning, info and debug",
                 *overrides.log_level);
    }
    config->log.level = *level;
  }
  return {};
}

void CompleteConfig(const Surroundings& surroundings, Config* config) {
  auto& server = config->server;
  if (server.state_dir.empty()) server.state_dir = engine::DefaultStateDirectory(surroundings);
  if (server.runtime_dir.empty()) server.runtime_dir = DefaultRuntimeDirectory(surroundings, server.state_dir);
  if (server.listen.empty()) server.listen.push_back(fmt::format("unix:{}/cella.sock", server.runtime_dir));
  if (server.token_file.empty() && !server.no_auth) server.token_file = server.state_dir + "/tokens";
}

Status CheckConfig(const Config& config) {
  if (config.server.no_auth && !config.server.token_file.empty()) {
    return Err(ErrorCode::kInvalid, "server.no_auth and server.token_file contradict each other: leave one out");
  }
  if (config.server.tls_certificate.empty() != config.server.tls_key.empty()) {
    return Err(ErrorCode::kInvalid,
               "server.tls_certificate and server.tls_key belong together: one of them is missing");
  }
  TRY_VOID(CheckListen(config));
  TRY_VOID(CheckOrigins(config));
  TRY_VOID(CheckAllowedDirectories(config));
  TRY_VOID(CheckDefaults(config));
  TRY_VOID(CheckMaxima(config));
  for (const auto& [client, limits] : config.client_quotas) {
    if (limits.burst && !limits.requests_per_second) {
      return Err(ErrorCode::kInvalid, "quota.{}.burst means nothing without requests_per_second", client);
    }
  }
  if (config.quota.burst && !config.quota.requests_per_second) {
    return Err(ErrorCode::kInvalid, "quota.burst means nothing without quota.requests_per_second");
  }
  return {};
}

}  // namespace cella::server
