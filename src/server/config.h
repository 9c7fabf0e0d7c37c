// The configuration of `cella serve` as one value, with every default written here, once. cella.toml fills it
// (config_reader.h), command-line options override it, and what is left open is completed from the surroundings.
// Plain values; read-only once the server runs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"
#include "engine/default_directories.h"
#include "policy/keys.h"

namespace cella::server {

enum class LogLevel { kError, kWarning, kInfo, kDebug };
enum class LogFormat { kAuto, kJson, kText };

// Of one client. What is absent is not limited.
struct QuotaLimits {
  std::optional<uint64_t> sessions;
  std::optional<uint64_t> concurrent_runs;
  std::optional<uint64_t> memory;  // sum of the memory limits of its sessions
  std::optional<double> requests_per_second;
  std::optional<uint64_t> burst;  // requests at once; absent: those of one second
  std::optional<uint64_t> environments = 64;
  std::optional<uint64_t> environment_disk = uint64_t{8} << 30;
  std::optional<uint64_t> builds = 4;         // of environments and of packages for sessions, at once
  std::optional<uint64_t> interpreters = 16;  // started ahead of sessions, with packages that the client chose

  bool operator==(const QuotaLimits&) const = default;
};

// Of kExecutors, those that clients may ask for where the configuration names none.
std::vector<ExecutorKind> AllowedByDefault();

struct Config {
  struct Server {
    std::vector<std::string> listen;  // as written; ParseListenAddress reads them
    std::string state_dir;
    std::string runtime_dir;
    std::string tls_certificate;
    std::string tls_key;
    std::string token_file;
    bool no_auth = false;
    bool insecure_http = false;
    std::vector<std::string> allowed_origins;
    std::vector<std::string> allowed_hosts;
    uint64_t max_body = uint64_t{64} << 20;
    uint64_t max_connections = 1024;
    std::chrono::nanoseconds drain_grace = std::chrono::seconds(10);
  } server;

  struct Sessions {
    uint64_t max_sessions = 256;
    uint64_t max_queued_runs = 16;
    bool prestart = true;
    uint64_t pool_shells = 4;
    uint64_t pool_parked = 2;
  } sessions;

  SessionSpec defaults;                          // what a session gets that asks for nothing
  SessionSpec maxima = policy::DefaultMaxima();  // the most that clients may ask for

  struct Allow {
    std::vector<ExecutorKind> executors = AllowedByDefault();
    bool jailed_kernels = false;  // `jail: true` of an executor that `executors` does not list
    bool network_host = false;
    std::vector<std::string> mounts;
    std::vector<std::string> pythons;
    bool runtime_deps = false;
    bool environments = false;
    bool source_builds = false;
    bool whole_machine = false;
  } allow;

  struct Storage {
    std::string directory;  // empty: clients have no storages
    uint64_t max_bytes = uint64_t{1} << 30;
    uint64_t max_files = 10'000;
    uint64_t max_storages = 16;
  } storage;

  // What clients may ask of containers beyond the defaults.
  struct Containers {
    std::vector<std::string> images;    // besides that of the defaults
    bool pull = false;                  // an image that is missing is fetched
    bool bridge = false;                // network: bridge
    std::vector<std::string> runtimes;  // of the engine, besides its default
  } containers;

  struct Packages {
    std::vector<std::string> allow;  // empty: all
    std::vector<std::string> deny;
    uint64_t installers = 4;  // at once
    uint64_t cache_size = uint64_t{8} << 30;
  } packages;

  QuotaLimits quota;
  std::map<std::string, QuotaLimits, std::less<>> client_quotas;  // complete: [quota] is already in them

  struct Retention {
    uint64_t days = 30;
    uint64_t runs = 100'000;
    uint64_t event_log_bytes = uint64_t{64} << 20;
  } retention;

  struct Log {
    LogLevel level = LogLevel::kInfo;
    LogFormat format = LogFormat::kAuto;
  } log;

  const QuotaLimits& QuotaOf(std::string_view client) const;
  // Those that some session may have.
  std::vector<ExecutorKind> UsableExecutors() const;
};

// What the command line says; it wins over the file. Relative paths start at `directory`.
struct ConfigOverrides {
  std::vector<std::string> listen;  // not empty: instead of the file's
  std::optional<std::string> state_dir, runtime_dir, tls_certificate, tls_key, token_file;
  bool insecure_http = false;
  bool no_auth = false;  // also instead of a token file that the configuration names
  std::optional<std::string> log_level;
  std::string directory;
};
Status ApplyOverrides(const ConfigOverrides& overrides, Config* config);

using engine::Surroundings;

// Fills in directories, addresses and the token file. Whether the operator named the token file matters to the caller:
// one that was not named need not exist.
void CompleteConfig(const Surroundings& surroundings, Config* config);

// What contradicts itself or would open more than the operator meant. Looks at the file system for links only.
Status CheckConfig(const Config& config);

}  // namespace cella::server
