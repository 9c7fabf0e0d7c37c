// The public names of statuses and kinds: the same words in JSON, in messages and in the documentation.
#include "cella/event.h"
#include "cella/outcome.h"

namespace cella {

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

}  // namespace cella
