// How a run ended, what it used, and which mechanisms confined it. The fold of a run's events is a RunResult.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cella {

enum class RunStatus {
  kOk,
  kError,      // the code raised or exited non-zero
  kTimeout,    // wall time
  kCancelled,  // the caller stopped it
  kOom,        // out of memory
  kCrashed,    // ended by a signal
  kLimit,      // pids, disk or CPU time
  kRejected,   // refused: unknown language, path escape, policy
};

std::string_view ToString(RunStatus status);

// Exit codes that Cella sets. Any other is the program's own, or 128 + signal.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitCancelled = 125;
inline constexpr int kExitRejected = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitOom = 137;

// The state of the session after the run.
enum class StateAfter { kKept, kRolledBack, kLost, kNone };

std::string_view ToString(StateAfter state);

struct RunError {
  std::string name;
  std::string message;
  std::string traceback;
};

// One object in several representations: MIME type to text; binary ones are base64.
struct MimeBundle {
  std::vector<std::pair<std::string, std::string>> data;
  std::string metadata = "{}";  // a JSON object
  // Representations that exceed the bounds of a Result: type and bytes. A server keeps them for a while.
  std::vector<std::pair<std::string, uint64_t>> left_out{};
};

// Memory used by the bundle, for bounds on queues and results.
inline size_t SizeOf(const MimeBundle& bundle) {
  size_t size = sizeof bundle + bundle.metadata.size();
  for (const auto& [type, data] : bundle.data) size += sizeof type + sizeof data + type.size() + data.size();
  return size;
}

struct FileChange {
  enum class Kind { kCreated, kModified, kDeleted };
  std::string path;  // relative to the workspace, '/' separated
  uint64_t size = 0;
  Kind kind = Kind::kCreated;
  // Why the supervisor could not copy the file to --out, when the guest caused it (an unreadable file, for example).
  std::string not_copied;
};

std::string_view ToString(FileChange::Kind kind);

struct Usage {
  double wall_ms = 0;
  double cpu_ms = 0;
  uint64_t peak_memory = 0;  // bytes
};

// `by` names the mechanism: "cgroup", "rlimit", "rlimit+watchdog", "watchdog", "tmpfs", "supervisor", "none".
struct EnforcedLimit {
  double value = 0;
  std::string by;
  std::string during = "";  // "runs": of a session, what is left in the background is not limited between its runs
};

struct Isolation {
  std::string executor;
  std::vector<std::string> namespaces;
  bool seccomp = false;
  int landlock = 0;              // ABI; 0: not available
  std::string cgroup = "none";   // "v2", "v1", "none"
  std::string network = "host";  // "none", "host"
  std::string proc = "host";     // "own", "none" (the kernel refused a fresh /proc), "host"
  std::map<std::string, EnforcedLimit> limits;
  std::vector<std::string> unenforced;         // requested with best_effort
  std::map<std::string, std::string> details;  // of the executor: image, user, runtime
  std::string start;  // how the session's interpreter was started: "fork", "exec: reason"; empty: one-shot
};

// How the guest ended. Failures of Cella itself are Errors, not Outcomes.
struct Outcome {
  RunStatus status = RunStatus::kOk;
  int exit_code = 0;
  std::optional<int> signal;
  std::optional<RunError> error;
  Usage usage;
  uint64_t displays_dropped = 0;
};

// A step of what a run showed: bytes [begin, end) of an output stream, or the output with the index `begin`.
struct ResultItem {
  enum class Kind { kStdout, kStderr, kOutput };
  Kind kind = Kind::kStdout;
  size_t begin = 0;
  size_t end = 0;
};

struct RunResult {
  std::string id;
  std::string session;  // empty: none
  Outcome outcome;
  std::string stdout_text;
  std::string stderr_text;
  uint64_t stdout_dropped = 0;
  uint64_t stderr_dropped = 0;
  std::optional<std::string> value;
  std::vector<MimeBundle> outputs;
  uint64_t outputs_dropped = 0;   // that are not in `outputs`, or not whole
  std::vector<ResultItem> items;  // texts and outputs in the order of the code; empty where there are no outputs
  std::vector<FileChange> files;
  bool files_complete = true;
  StateAfter state = StateAfter::kNone;
  std::string checkpoint = "off";
  Isolation isolation;
};

}  // namespace cella
