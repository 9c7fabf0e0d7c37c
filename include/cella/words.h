// The words of options, configuration and the HTTP API, for applications, which do not link what defines them in Cella
// itself (src/base/words.cc).
#pragma once

#include <string_view>

#include "cella/event.h"
#include "cella/outcome.h"
#include "cella/policy.h"

namespace cella {

inline std::string_view ToString(RunStatus status) {
  constexpr std::string_view kWords[] = {"ok", "error", "timeout", "cancelled", "oom", "crashed", "limit", "rejected"};
  return kWords[static_cast<size_t>(status)];
}
inline std::string_view ToString(StateAfter state) {
  constexpr std::string_view kWords[] = {"kept", "rolled_back", "lost", "none"};
  return kWords[static_cast<size_t>(state)];
}
inline std::string_view ToString(FileChange::Kind kind) {
  constexpr std::string_view kWords[] = {"created", "modified", "deleted"};
  return kWords[static_cast<size_t>(kind)];
}
inline std::string_view ToString(Stream stream) { return stream == Stream::kStdout ? "stdout" : "stderr"; }
inline std::string_view ToString(ExecutorKind kind) { return RowOf(kind).name; }
inline std::string_view ToString(Network network) {
  constexpr std::string_view kWords[] = {"none", "host", "bridge"};
  return kWords[static_cast<size_t>(network)];
}
inline std::string_view ToString(MountMode mode) { return mode == MountMode::kReadWrite ? "rw" : "ro"; }
inline std::string_view ToString(CheckpointMode mode) {
  constexpr std::string_view kWords[] = {"auto", "always", "off"};
  return kWords[static_cast<size_t>(mode)];
}

}  // namespace cella
