// The public names of statuses and kinds: the same words in JSON, in messages and in the documentation.
#include <string>

#include "cella/event.h"
#include "cella/outcome.h"
#include "cella/policy.h"

namespace cella {
namespace {

// Both directions from one list: what has a name can be read by it.
template <typename T, size_t n>
std::optional<T> Find(const T (&all)[n], std::string_view word) {
  for (T each : all) {
    if (ToString(each) == word) return each;
  }
  return std::nullopt;
}

}  // namespace

std::string_view ToString(RunStatus status) {
  switch (status) {
    case RunStatus::kOk: return "ok";
    case RunStatus::kError: return "error";
    case RunStatus::kTimeout: return "timeout";
    case RunStatus::kCancelled: return "cancelled";
    case RunStatus::kOom: return "oom";
    case RunStatus::kCrashed: return "crashed";
    case RunStatus::kLimit: return "limit";
    case RunStatus::kRejected: return "rejected";
  }
  return "error";
}

std::string_view ToString(StateAfter state) {
  switch (state) {
    case StateAfter::kKept: return "kept";
    case StateAfter::kRolledBack: return "rolled_back";
    case StateAfter::kLost: return "lost";
    case StateAfter::kNone: return "none";
  }
  return "none";
}

std::string_view ToString(FileChange::Kind kind) {
  switch (kind) {
    case FileChange::Kind::kCreated: return "created";
    case FileChange::Kind::kModified: return "modified";
    case FileChange::Kind::kDeleted: return "deleted";
  }
  return "created";
}

std::string_view ToString(Stream stream) { return stream == Stream::kStdout ? "stdout" : "stderr"; }

std::string_view ToString(ExecutorKind kind) { return RowOf(kind).name; }

std::string_view ExecutorNames() {
  static const std::string names = [] {
    std::string text;
    for (const ExecutorRow& row : kExecutors) text.append(text.empty() ? "" : ", ").append(row.name);
    return text;
  }();
  return names;
}

std::string_view ToString(Network network) {
  return network == Network::kHost ? "host" : network == Network::kBridge ? "bridge" : "none";
}

std::string_view ToString(MountMode mode) { return mode == MountMode::kReadWrite ? "rw" : "ro"; }

std::string_view ToString(CheckpointMode mode) {
  switch (mode) {
    case CheckpointMode::kAuto: return "auto";
    case CheckpointMode::kAlways: return "always";
    case CheckpointMode::kOff: return "off";
  }
  return "auto";
}

std::optional<ExecutorKind> ParseExecutorKind(std::string_view word) {
  for (const ExecutorRow& row : kExecutors) {
    if (row.name == word) return row.kind;
  }
  return std::nullopt;
}

std::optional<Network> ParseNetwork(std::string_view word) {
  return Find({Network::kNone, Network::kHost, Network::kBridge}, word);
}

std::optional<MountMode> ParseMountMode(std::string_view word) {
  return Find({MountMode::kReadOnly, MountMode::kReadWrite}, word);
}

std::optional<CheckpointMode> ParseCheckpointMode(std::string_view word) {
  return Find({CheckpointMode::kAuto, CheckpointMode::kAlways, CheckpointMode::kOff}, word);
}

}  // namespace cella
