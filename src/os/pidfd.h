// What a pidfd tells about its process.
#pragma once

#include <vector>

#include "base/result.h"

namespace cella::os {

// The numbers of the process in the pid namespaces that it lives in, from ours down to its own; the last one is how it
// is known to those around it. Fails when it is gone.
Result<std::vector<int>> NamespacePids(int pidfd);

// The process is alive and in this pid namespace (a descriptor of it).
bool LivesIn(int pidfd, int pid_namespace);

// The process has ended.
bool HasEnded(int pidfd);

}  // namespace cella::os
