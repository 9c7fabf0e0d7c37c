#include "server/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/units.h"
#include "language/host_path.h"
#include "language/visible.h"
#include "server/config_keys.h"
#include "server/listen_address.h"
#include "server/origin.h"
#include "session/installation.h"

namespace cella::server {
namespace {

Status CheckListen(const Config& config) {
  for (const std::string& text : config.server.listen) {
    auto address = ParseListenAddress(text);
    if (!address) return std::unexpected(std::move(address.error()).WithContext("server.listen"));
    if (config.server.no_auth && !address->is_unix() && !address->is_loopback()) {
      return Err(ErrorCode::kInvalid,
                 "server.listen: '{}' can be reached from other machines, and server.no_auth lets everybody in: listen "
                 "on 127.0.0.1 or a Unix socket, or use a token file",
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
                 "server.allowed_origins: \"*\" with server.no_auth lets every web page that somebody opens on this "
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

// What guests may write to must hold nothing that the server believes.
Status CheckAllowedDirectories(const Config& config) {
  const auto& server = config.server;
  std::vector<std::pair<const char*, std::string>> ours = {{"server.state_dir", server.state_dir},
                                                           {"server.runtime_dir", server.runtime_dir},
                                                           {"server.token_file", server.token_file},
                                                           {"server.tls_certificate", server.tls_certificate},
                                                           {"server.tls_key", server.tls_key}};
  if (auto installation = session::FindInstallation()) {
    for (const std::string& path : {installation->launcher, installation->languages, installation->runners}) {
      ours.emplace_back("programs of cella", path);
    }
  }
  // Whoever can replace the socket can answer in our name.
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

template <typename T, typename Format>
Status CheckMaximum(std::string_view key, std::string_view maximum_key, const T& value, const T& maximum,
                    Format format) {
  if (value <= maximum) return {};
  return Err(ErrorCode::kInvalid, "{} is {}, more than the {} of {}", key, format(value), format(maximum), maximum_key);
}

Status CheckMaxima(const Config& config) {
  const Limits& limits = config.defaults.policy.limits;
  const auto& most = config.maxima;
  auto number = [](uint64_t value) { return fmt::format("{}", value); };
  TRY_VOID(CheckMaximum("policy.limits.memory", "maxima.memory", limits.memory.value, most.memory, FormatByteSize));
  TRY_VOID(CheckMaximum("policy.limits.disk", "maxima.disk", limits.disk.value, most.disk, FormatByteSize));
  TRY_VOID(CheckMaximum("policy.limits.output", "maxima.output", limits.output.value, most.output, FormatByteSize));
  TRY_VOID(CheckMaximum("policy.limits.timeout", "maxima.timeout", limits.timeout.value, most.timeout, FormatDuration));
  TRY_VOID(
      CheckMaximum("policy.limits.cpu_time", "maxima.cpu_time", limits.cpu_time.value, most.cpu_time, FormatDuration));
  TRY_VOID(CheckMaximum("policy.limits.pids", "maxima.pids", limits.pids.value, most.pids, number));
  TRY_VOID(
      CheckMaximum("policy.limits.open_files", "maxima.open_files", limits.open_files.value, most.open_files, number));
  if (limits.cpus && most.cpus) {
    TRY_VOID(CheckMaximum("policy.limits.cpus", "maxima.cpus", *limits.cpus, *most.cpus,
                          [](double value) { return fmt::format("{}", value); }));
  }
  TRY_VOID(CheckMaximum("sessions.idle_timeout", "maxima.idle_timeout", config.sessions.idle_timeout, most.idle_timeout,
                        FormatDuration));
  TRY_VOID(CheckMaximum("sessions.max_lifetime", "maxima.max_lifetime", config.sessions.max_lifetime, most.max_lifetime,
                        FormatDuration));
  return {};
}

Status CheckDefaults(const Config& config) {
  const Config::Defaults& defaults = config.defaults;
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
  if (defaults.policy.limits.memory.value < kMinMemory) {
    return Err(ErrorCode::kInvalid, "policy.limits.memory: at least {} is needed", FormatByteSize(kMinMemory));
  }
  if (defaults.policy.limits.open_files.value < kMinOpenFiles) {
    return Err(ErrorCode::kInvalid, "policy.limits.open_files: at least {} are needed", kMinOpenFiles);
  }
  return {};
}

}  // namespace

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
  // Each of the two takes the other's place: whoever types one of them has decided.
  if (overrides.token_file) server.no_auth = false;
  if (overrides.no_auth) {
    if (overrides.token_file) return Err(ErrorCode::kInvalid, "give either --token-file or --no-auth, not both");
    server.no_auth = true;
    server.token_file.clear();
  }
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

Surroundings Surroundings::FromProcess() {
  auto value = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  return {.uid = ::geteuid(),
          .home = value("HOME"),
          .xdg_state_home = value("XDG_STATE_HOME"),
          .xdg_runtime_dir = value("XDG_RUNTIME_DIR")};
}

std::string DefaultStateDirectory(const Surroundings& surroundings) {
  // Root's are the machine's: the same from a login and from the init system.
  if (surroundings.uid == 0) return "/var/lib/cella";
  if (surroundings.xdg_state_home.starts_with('/')) return surroundings.xdg_state_home + "/cella";
  if (!surroundings.home.starts_with('/')) return "/var/lib/cella";
  return surroundings.home + "/.local/state/cella";
}

void CompleteConfig(const Surroundings& surroundings, Config* config) {
  auto& server = config->server;
  if (server.state_dir.empty()) server.state_dir = DefaultStateDirectory(surroundings);
  if (server.runtime_dir.empty()) {
    if (surroundings.uid == 0) {
      server.runtime_dir = "/run/cella";
    } else if (surroundings.xdg_runtime_dir.starts_with('/')) {
      server.runtime_dir = surroundings.xdg_runtime_dir + "/cella";
    } else {
      // Not in /tmp, where others could make it first.
      server.runtime_dir = server.state_dir + "/run";
    }
  }
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
