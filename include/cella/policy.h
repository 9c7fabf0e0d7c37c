// The policy of a guest: limits, network, mounts, environment variables. Plain values; the only place with defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cella/executors.h"

namespace cella {

// A limit, and whether the caller asked for it. A requested limit that cannot be enforced is refused. A default uses
// the best available mechanism, which the result reports.
template <typename T>
struct Limit {
  T value{};
  bool asked = false;
};

struct Limits {
  Limit<std::chrono::nanoseconds> timeout{std::chrono::seconds(60)};
  Limit<std::chrono::nanoseconds> cpu_time{std::chrono::seconds(60)};
  Limit<uint64_t> memory{uint64_t{1} << 30};
  std::optional<double> cpus;  // absent: all processors
  Limit<uint64_t> pids{128};
  Limit<uint64_t> disk{uint64_t{1} << 30};
  Limit<uint64_t> open_files{1024};
  Limit<uint64_t> output{uint64_t{1} << 20};
  Limit<uint64_t> calls{10'000};                 // from the code to the host, of one run
  Limit<uint64_t> calls_at_once{16};             // that are open
  Limit<uint64_t> call_size{uint64_t{1} << 20};  // bytes of the arguments of a call, and of its result
};

enum class Network {
  kNone,    // own network namespace with only a loopback device
  kHost,    // the host's network
  kBridge,  // of a container: the engine's own network
};

enum class MountMode { kReadOnly, kReadWrite };

// When a session's interpreter is copied, so that a crash costs one run and not the variables.
enum class CheckpointMode { kAuto, kAlways, kOff };

// The words of options, configuration and the HTTP API. Parse functions return nothing for any other word.
std::string_view ToString(ExecutorKind kind);    // a name of kExecutors
std::string_view ToString(Network network);      // "none", "host"
std::string_view ToString(MountMode mode);       // "ro", "rw"
std::string_view ToString(CheckpointMode mode);  // "auto", "always", "off"
std::optional<ExecutorKind> ParseExecutorKind(std::string_view word);
std::optional<Network> ParseNetwork(std::string_view word);
std::optional<MountMode> ParseMountMode(std::string_view word);
std::optional<CheckpointMode> ParseCheckpointMode(std::string_view word);

struct Mount {
  std::string source;  // on the host; a real path, without symbolic links
  std::string target;  // absolute path in the jail
  MountMode mode = MountMode::kReadOnly;
};

enum class ContainerMode {
  kSession,  // interpreters that keep their variables from run to run
  kCommand,  // each block is a file and a process of its own
};

enum class ContainerFresh {
  kSession,  // a session has one container
  kRun,      // each of its runs has one: only directories of the host stay
};

// Of the container executor alone.
struct ContainerPolicy {
  ContainerMode mode = ContainerMode::kSession;
  ContainerFresh fresh = ContainerFresh::kSession;
  std::string engine;          // its address; empty: DOCKER_HOST, else the usual sockets of Docker and Podman
  std::string image;           // empty: python:3-slim
  bool pull = true;            // an image that is missing
  std::string name;            // empty: the engine's choice
  std::string runtime;         // "runsc", "kata"; empty: the engine's default
  std::string auth_token;      // what the agent inside asks for; empty: a random one
  bool auth_disabled = false;  // it asks for none
  bool read_only = true;       // the image's files
  std::string bind_dir;        // the workdir as the engine's machine names it; empty: the same
  std::string user;            // "UID" or "UID:GID" inside; empty: the caller, or an unprivileged one of root's
  std::vector<std::pair<std::string, std::string>> extra_hosts;  // names to addresses
  std::string device_requests;                                   // a JSON list, as the engine takes it; empty: none
  std::vector<std::string> cap_add;                              // "NET_RAW"
  std::string init_command;                                      // of sh; once, before the first run
  bool auto_remove = true;                                       // the engine removes the container when it has ended
  bool stop_container = true;                                    // false: it stays, idle, after its session
};

struct Policy {
  Limits limits;
  Network network = Network::kNone;
  std::vector<Mount> mounts;
  std::vector<std::pair<std::string, std::string>> env;  // added to the fixed variables
  bool inherit_env = false;                              // local executor only
  bool best_effort = false;                              // report unenforceable limits instead of refusing
  std::string workdir;  // host directory used as the workspace, a real path; empty: private
  std::string rootfs;   // another root tree; empty: the host's system directories
  std::string venv;     // Python virtual environment
  std::string python;   // "3.12" or a path; empty: the default
  ContainerPolicy container;
  // Of the subprocess executor:
  std::string kernel;                  // the name of a kernelspec; empty: ipykernel of the Python
  bool jail = false;                   // the kernel runs in a jail
  bool system_packages = false;        // its own environment shows the packages that the Python has
  bool values_of_assignments = false;  // a cell that ends with an assignment has its value
  std::chrono::nanoseconds startup_timeout{std::chrono::seconds(30)};
};

// The Python environment of a session: a finished one by its name, or what one is made from. Empty: none is asked for.
struct EnvironmentChoice {
  std::string name{};                   // excludes the others
  std::string python{};                 // "3.12" or a path; empty: the session's default
  std::vector<std::string> packages{};  // requirements
  std::vector<std::string> preload{};   // modules

  bool empty() const { return name.empty() && python.empty() && packages.empty() && preload.empty(); }
  bool operator==(const EnvironmentChoice&) const = default;
};

// What a session is made from. Plain values with every default; the keys by which people set them are in src/policy.
struct SessionSpec {
  Policy policy;
  std::vector<std::string> preload{};  // Python modules that are imported before the session begins
  EnvironmentChoice environment{};
  CheckpointMode checkpoint = CheckpointMode::kAuto;
  ExecutorKind executor = kDefaultExecutor;
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
  std::chrono::nanoseconds max_lifetime = std::chrono::hours(24);
  std::vector<std::string> deps{};  // requirements that `sync` installs
  bool runtime_deps = true;         // the session may add and remove packages
  std::string storage{};            // a directory of artifacts and workflows; empty: none
  std::string name{};               // empty: none
  std::map<std::string, std::string> labels{};
};

// Whether a guest cannot reach the host beyond what its policy shows it.
inline bool IsConfined(const SessionSpec& spec) { return Confines(spec.executor) || spec.policy.jail; }

// Host directories that guests with this policy may write to.
inline std::vector<std::string> GuestWritable(const Policy& policy) {
  std::vector<std::string> paths;
  if (!policy.workdir.empty()) paths.push_back(policy.workdir);
  for (const Mount& mount : policy.mounts) {
    if (mount.mode == MountMode::kReadWrite) paths.push_back(mount.source);
  }
  return paths;
}

}  // namespace cella
