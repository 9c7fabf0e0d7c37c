// Turns the failing step of a jail into a sentence with a remedy.
#pragma once

#include "base/result.h"
#include "jail/protocol.h"

namespace cella::confine {

Error ExplainBuildFailure(const jail::Report& report);
Error ExplainExecFailure(const jail::Report& report);
Error NoDescriptors();

}  // namespace cella::confine
