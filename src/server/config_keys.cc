#include "server/config_keys.h"

#include "environment/requirement.h"

namespace cella::server {
namespace {

using enum KeyKind;

constexpr ConfigSection kSections[] = {
    {"server", "Where the server listens, who may talk to it, and where it keeps its files."},
    {"sessions", "How many sessions there may be, how long they live, and what is made ahead of demand."},
    {"policy", "What a session gets that does not ask for anything else: the words of the HTTP Policy document."},
    {"policy.limits", "The limits of such a session."},
    {"allow", "What clients may ask for. Everything else is answered with 403."},
    {"packages", "How packages are installed for sessions and environments, where `[allow]` permits it."},
    {"container", "Sessions of the executor `container`, where `executors` of `[allow]` names it."},
    {"storage", "What outlives the sessions of clients: each has its storages, in a directory of its own."},
    {"maxima",
     "The most that clients may ask for. A session that names no `limits.cpus` gets what is allowed of them."},
    {"quota",
     "What each client may use at once; more is answered with 429. What has no default is not limited. "
     "`[quota.NAME]` "
     "has the same keys for the client NAME, and takes what it does not set from `[quota]`."},
    {"retention", "How long results are kept."},
    {"log", "What the server writes to standard error."},
};

#define CELLA_AT(path) (+[](Config& config) { return &config.path; })

// A field that is an enumeration, with the functions that know its words.
#define CELLA_WORD(path, parse)                                                                                 \
  (WordField{[](const Config& config) { return std::vector<std::string>{std::string(ToString(config.path))}; }, \
             [](Config& config, const std::vector<std::string>& words) {                                        \
               auto value = words.size() == 1 ? parse(words[0]) : std::nullopt;                                 \
               if (value) config.path = *value;                                                                 \
               return value.has_value();                                                                        \
             }})

std::vector<std::string> GetExecutors(const Config& config) {
  std::vector<std::string> words;
  for (ExecutorKind kind : config.allow.executors) words.emplace_back(ToString(kind));
  return words;
}

bool SetExecutors(Config& config, const std::vector<std::string>& words) {
  std::vector<ExecutorKind> kinds;
  for (const std::string& word : words) {
    auto kind = ParseExecutorKind(word);
    if (!kind) return false;
    kinds.push_back(*kind);
  }
  config.allow.executors = std::move(kinds);
  return true;
}

template <auto field>
std::vector<std::string> GetPackages(const Config& config) {
  return config.packages.*field;
}

template <auto field>
bool SetPackages(Config& config, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (!environment::IsPackageName(word)) return false;
    names.push_back(environment::NormalizeName(word));
  }
  config.packages.*field = std::move(names);
  return true;
}

const ConfigKey kOwnKeys[] = {
    {"server", "listen", kAddresses, CELLA_AT(server.listen),
     "Addresses: `unix:/PATH`, `127.0.0.1:PORT`, `[::1]:PORT`, `localhost:PORT`; port 0 takes a free one.",
     "`unix:RUNTIME_DIR/cella.sock`"},
    {"server", "state_dir", kPath, CELLA_AT(server.state_dir), "What outlives the server: its database, run logs.",
     "`/var/lib/cella` for root, else `~/.local/state/cella` (`$XDG_STATE_HOME`)"},
    {"server", "runtime_dir", kPath, CELLA_AT(server.runtime_dir), "Sockets, and what ends with the server.",
     "`/run/cella` for root, else `$XDG_RUNTIME_DIR/cella`, else `STATE_DIR/run`"},
    {"server", "tls_certificate", kPath, CELLA_AT(server.tls_certificate),
     "Certificate chain (PEM); TCP addresses then speak TLS.", "no TLS"},
    {"server", "tls_key", kPath, CELLA_AT(server.tls_key), "Private key (PEM) of the certificate.", "no TLS"},
    {"server", "token_file", kPath, CELLA_AT(server.token_file),
     "Tokens of clients, see [server.md](server.md#tokens).", "`STATE_DIR/tokens`, if it is there"},
    {"server",
     "no_auth",
     kSwitch,
     CELLA_AT(server.no_auth),
     "Demand no token of any client. TCP addresses must then be loopback ones.",
     {}},
    {"server",
     "insecure_http",
     kSwitch,
     CELLA_AT(server.insecure_http),
     "Listen without TLS on addresses that other machines can reach.",
     {}},
    {"server", "allowed_origins", kTexts, CELLA_AT(server.allowed_origins),
     "Web origins (`https://app.example`) whose pages may call the server (CORS); `*` is all of them.", "none"},
    {"server", "allowed_hosts", kTexts, CELLA_AT(server.allowed_hosts),
     "Names by which clients may call the server (the `Host` header of TCP connections); `*` is any.",
     "`localhost`, loopback addresses, and what it listens on; with `0.0.0.0` or `[::]` any address, but no other "
     "name"},
    {"server", "max_body", kSize, CELLA_AT(server.max_body), "Largest body of a request (413 beyond).", {}},
    {"server", "max_connections", kCount, CELLA_AT(server.max_connections), "Connections at once.", {}},
    {"server",
     "drain_grace",
     kDuration,
     CELLA_AT(server.drain_grace),
     "How long a server that was told to end waits for what runs.",
     {}},

    {"sessions", "max_sessions", kCount, CELLA_AT(sessions.max_sessions), "Sessions at once, of all clients.", {}},
    {"sessions",
     "max_queued_runs",
     kCount,
     CELLA_AT(sessions.max_queued_runs),
     "Runs that may wait in one session for the one that is on.",
     {}},
    {"sessions",
     "prestart",
     kSwitch,
     CELLA_AT(sessions.prestart),
     "Start the default Python with the server, so that the first session need not wait for it.",
     {}},
    {"sessions",
     "pool_shells",
     kCountOrZero,
     CELLA_AT(sessions.pool_shells),
     "Empty jails made ahead of demand, at most, of each kind; 0: none.",
     {}},
    {"sessions",
     "pool_parked",
     kCountOrZero,
     CELLA_AT(sessions.pool_parked),
     "Whole sessions made ahead of demand, at most, of each kind; 0: none.",
     {}},

    {"allow", "executors", kWords, (WordField{GetExecutors, SetExecutors}),
     "Executors. `local`, `subprocess` and `inprocess` confine nothing: their sessions are the server's user.",
     ExecutorNames()},
    {"allow",
     "jailed_kernels",
     kSwitch,
     CELLA_AT(allow.jailed_kernels),
     "Sessions of `subprocess` in a jail (`jail: true`), where `executors` does not list it.",
     {}},
    {"allow", "network_host", kSwitch, CELLA_AT(allow.network_host), "`network: host`.", {}},
    {"allow", "mounts", kPaths, CELLA_AT(allow.mounts),
     "Host directories in or below which `mounts`, `workdir`, `rootfs` and `venv` may point. Links in them are not "
     "followed, since guests may have made them.",
     "none"},
    {"allow", "pythons", kPaths, CELLA_AT(allow.pythons),
     "Interpreters, or directories of them, that `python` may name by path. Not where guests can write.", "none"},
    {"allow",
     "runtime_deps",
     kSwitch,
     CELLA_AT(allow.runtime_deps),
     "Sessions install packages from the operator's index (`deps`). They get no network by this.",
     {}},
    {"allow",
     "environments",
     kSwitch,
     CELLA_AT(allow.environments),
     "Clients make environments: `POST /v1/environments`, and sessions that name the packages of theirs.",
     {}},
    {"allow",
     "source_builds",
     kSwitch,
     CELLA_AT(allow.source_builds),
     "Packages without a wheel are built from their source for clients, in jails without network.",
     {}},
    {"allow", "packages", kWords,
     (WordField{GetPackages<&Config::Packages::allow>, SetPackages<&Config::Packages::allow>}),
     "Names of the packages that sessions may ask for, if any are listed; what these need comes along.",
     "package names"},
    {"allow", "denied_packages", kWords,
     (WordField{GetPackages<&Config::Packages::deny>, SetPackages<&Config::Packages::deny>}),
     "Names of packages that sessions may not have, also where others need them. Outweighs `packages`.",
     "package names"},
    {"allow",
     "whole_machine",
     kSwitch,
     CELLA_AT(allow.whole_machine),
     "Every path and interpreter that the server's user could use itself. Only for a server whose clients are that "
     "user: one on Unix sockets alone.",
     {}},

    {"storage", "directory", kPath, CELLA_AT(storage.directory),
     "Where the storages of clients are, as `CLIENT/NAME`. Nothing that guests may write to.", "clients have none"},
    {"storage", "max_bytes", kSize, CELLA_AT(storage.max_bytes), "Artifacts and workflows of one storage.", {}},
    {"storage", "max_files", kCount, CELLA_AT(storage.max_files), "Artifacts and workflows of one storage.", {}},
    {"storage", "max_storages", kCount, CELLA_AT(storage.max_storages), "Storages of one client.", {}},
    {"packages",
     "installers",
     kCount,
     CELLA_AT(packages.installers),
     "Jails that install or build at once, for all clients; others wait.",
     {}},
    {"packages",
     "cache_size",
     kSize,
     CELLA_AT(packages.cache_size),
     "Downloaded wheels that are kept; a larger cache is emptied before the next installation.",
     {}},

    {"container", "images", kTexts, CELLA_AT(containers.images), "Images that clients may name, besides `image`.",
     "none"},
    {"container",
     "pull",
     kSwitch,
     CELLA_AT(containers.pull),
     "Fetch an image that clients may name and that is missing.",
     {}},
    {"container",
     "bridge",
     kSwitch,
     CELLA_AT(containers.bridge),
     "Clients may ask for `network: bridge`, by which a container reaches what the engine's machine reaches. "
     "`network_host` of `[allow]` permits it, too.",
     {}},
    {"container", "runtimes", kTexts, CELLA_AT(containers.runtimes),
     "Runtimes of the engine that clients may name, as `runsc`.", "none"},

    {"quota", "sessions", kCount, CELLA_AT(quota.sessions), "Sessions at once.", "not limited"},
    {"quota", "concurrent_runs", kCount, CELLA_AT(quota.concurrent_runs), "Runs at once.", "not limited"},
    {"quota", "memory", kSize, CELLA_AT(quota.memory), "Sum of the memory limits of its sessions.", "not limited"},
    {"quota", "requests_per_second", kRate, CELLA_AT(quota.requests_per_second), "Requests, on average.",
     "not limited"},
    {"quota", "burst", kCount, CELLA_AT(quota.burst), "Requests that may come at once.", "those of one second"},
    {"quota",
     "environments",
     kCount,
     CELLA_AT(quota.environments),
     "Environments, those of its sessions included. Of these, the ones that no session uses make room.",
     {}},
    {"quota", "environment_disk", kSize, CELLA_AT(quota.environment_disk), "All files of its environments.", {}},
    {"quota",
     "builds",
     kCount,
     CELLA_AT(quota.builds),
     "Environments that are being made, and changes of packages in its sessions, at once.",
     {}},
    {"quota",
     "interpreters",
     kCount,
     CELLA_AT(quota.interpreters),
     "Interpreters kept started with packages or preloaded modules of its choice. Those without a session make room.",
     {}},

    {"retention",
     "days",
     kCount,
     CELLA_AT(retention.days),
     "Runs older than this are removed, with their results.",
     {}},
    {"retention",
     "runs",
     kCount,
     CELLA_AT(retention.runs),
     "Runs that are kept, of all clients; the oldest go first.",
     {}},
    {"retention",
     "event_log_bytes",
     kSize,
     CELLA_AT(retention.event_log_bytes),
     "Events that are kept of one run.",
     {}},

    {"log", "level", kWord, CELLA_WORD(log.level, ParseLogLevel), "The least important message that is written.",
     "error, warning, info, debug"},
    {"log", "format", kWord, CELLA_WORD(log.format, ParseLogFormat), "`auto` is text on a terminal and JSON elsewhere.",
     "auto, json, text"},
};

#undef CELLA_AT
#undef CELLA_WORD

// By section, in the order of the sections.
std::vector<ConfigKey> AllKeys() {
  std::vector<ConfigKey> keys;
  for (const ConfigSection& section : kSections) {
    for (const ConfigKey& key : kOwnKeys) {
      if (key.section == section.name) keys.push_back(key);
    }
    for (const policy::Key& key : policy::Keys()) {
      const std::string_view name = policy::LastPart(key.name);
      if (key.section == section.name) {
        keys.push_back({section.name, name, KeyKind::kPolicy, PolicyField{&Config::defaults, &key},
                        std::string(key.help), key.empty});
      } else if (section.name == "maxima" && !key.maximum.empty()) {
        keys.push_back({section.name, name, KeyKind::kPolicy, PolicyField{&Config::maxima, &key},
                        fmt::format("`{}`.", key.name), key.empty});
      }
    }
  }
  return keys;
}

}  // namespace

std::span<const ConfigKey> ConfigKeys() {
  static const std::vector<ConfigKey> keys = AllKeys();
  return keys;
}

std::span<const ConfigSection> ConfigSections() { return kSections; }

std::string_view ToString(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

std::string_view ToString(LogFormat format) {
  switch (format) {
    case LogFormat::kAuto: return "auto";
    case LogFormat::kJson: return "json";
    case LogFormat::kText: return "text";
  }
  return "auto";
}

std::optional<LogLevel> ParseLogLevel(std::string_view word) {
  for (LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    if (ToString(level) == word) return level;
  }
  return std::nullopt;
}

std::optional<LogFormat> ParseLogFormat(std::string_view word) {
  for (LogFormat format : {LogFormat::kAuto, LogFormat::kJson, LogFormat::kText}) {
    if (ToString(format) == word) return format;
  }
  return std::nullopt;
}

}  // namespace cella::server
