// An Error of ours, told as the Outcome of a run that never ran.
#pragma once

#include "base/result.h"
#include "cella/outcome.h"

namespace cella::session {

Outcome Rejected(const Error& error);

}  // namespace cella::session
