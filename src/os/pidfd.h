// What a pidfd shows of its process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "base/result.h"

namespace cella::os {

// The numbers of the process in the pid namespaces that it lives in, from ours down to its own; the last one is how it
// is known to those around it. Fails when it is gone.
Result<std::vector<int>> NamespacePids(int pidfd);

// Names a namespace while a process is in it; equal to {}: none.
struct NamespaceId {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const NamespaceId&) const = default;
};
NamespaceId IdOf(int descriptor);

// The process is alive and in this pid namespace.
bool LivesIn(int pidfd, const NamespaceId& pid_namespace);

// The process has ended.
bool HasEnded(int pidfd);

// Blocks until it has, at most for so long.
bool WaitUntilEnded(int pidfd, std::chrono::milliseconds patience);

}  // namespace cella::os
