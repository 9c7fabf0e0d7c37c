#include "session/rejected.h"

namespace cella::session {

Outcome Rejected(const Error& error) {
  Outcome outcome;
  outcome.status = RunStatus::kRejected;
  outcome.exit_code = error.code == ErrorCode::kNotFound ? kExitNotFound : kExitRejected;
  outcome.error = RunError{"Rejected", error.message, ""};
  return outcome;
}

}  // namespace cella::session
