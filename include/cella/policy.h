// What a guest may use: limits, network, mounts, environment. Plain values; every default is written here, once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cella {

// A limit and whether somebody asked for it. A limit that was asked for and cannot be enforced is refused; a default
// takes the best mechanism there is and reports which.
template <typename T>
struct Limit {
  T value{};
  bool asked = false;
};

struct Limits {
  Limit<std::chrono::nanoseconds> timeout{std::chrono::seconds(60)};
  Limit<std::chrono::nanoseconds> cpu_time{std::chrono::seconds(60)};
  Limit<uint64_t> memory{uint64_t{1} << 30};
  std::optional<double> cpus;  // absent: all of them
  Limit<uint64_t> pids{128};
  Limit<uint64_t> disk{uint64_t{1} << 30};
  Limit<uint64_t> open_files{1024};
  Limit<uint64_t> output{uint64_t{1} << 20};
};

// Below these no interpreter starts, and the reason would be hard to see.
inline constexpr uint64_t kMinMemory = uint64_t{1} << 20;
inline constexpr uint64_t kMinOpenFiles = 16;

// Where code runs.
enum class ExecutorKind { kSandbox, kLocal };

enum class Network {
  kNone,  // own network namespace; only its own loopback
  kHost,  // the host's network
};

enum class MountMode { kReadOnly, kReadWrite };

// The same words in options, configuration and the HTTP API; nothing: it is none of them.
std::string_view ToString(ExecutorKind kind);  // "sandbox", "local"
std::string_view ToString(Network network);    // "none", "host"
std::string_view ToString(MountMode mode);     // "ro", "rw"
std::optional<ExecutorKind> ParseExecutorKind(std::string_view word);
std::optional<Network> ParseNetwork(std::string_view word);
std::optional<MountMode> ParseMountMode(std::string_view word);

struct Mount {
  std::string source;  // on the host; a real path, without links
  std::string target;  // absolute, inside
  MountMode mode = MountMode::kReadOnly;
};

struct Policy {
  Limits limits;
  Network network = Network::kNone;
  std::vector<Mount> mounts;
  std::vector<std::pair<std::string, std::string>> env;  // added to the clean environment
  bool inherit_env = false;                              // local executor only
  bool best_effort = false;                              // report what cannot be enforced instead of refusing
  std::string workdir;  // host directory used as the workspace, a real path; empty: private
  std::string rootfs;   // another root tree; empty: the host's system directories
  std::string venv;     // Python virtual environment
  std::string python;   // "3.12" or a path; empty: the default
};

// Directories of the host that guests under this policy may write to.
inline std::vector<std::string> GuestWritable(const Policy& policy) {
  std::vector<std::string> paths;
  if (!policy.workdir.empty()) paths.push_back(policy.workdir);
  for (const Mount& mount : policy.mounts) {
    if (mount.mode == MountMode::kReadWrite) paths.push_back(mount.source);
  }
  return paths;
}

}  // namespace cella
