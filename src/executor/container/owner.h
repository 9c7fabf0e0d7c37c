// Who owns a container: a process of this machine, told apart from a later one with the same number. The label of every
// container of ours carries it, so that a later supervisor can remove what a killed one left.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::executor {

// "BOOT.NAMESPACE.PID.START" of this process.
Result<std::string> OwnerOfThisProcess();

// The label was made on this machine since it started, in this pid namespace, by a process that is gone. False for
// anything else, so that nothing of another machine or of a living owner is taken for an orphan.
bool IsOrphan(const std::string& owner);

}  // namespace cella::executor
