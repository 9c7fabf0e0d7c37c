// The root tree of a jail: see steps.h for when each step runs.
#pragma once

#include "jail/build.h"
#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

// Mounts that wait, detached, until the scratch file system is mounted: those whose place lies below it, and those that
// came with the request for this jail.
struct LateMounts {
  struct Entry {
    int fd;
    bool is_dir;
    const char* target;
  };
  Entry entries[kMaxMounts];
  uint32_t count = 0;
};

Failure EnterOwnMounts(const JailSpec& spec);
Failure BuildTree(const JailSpec& spec);
// The sources of all mounts, detached; they outlive this process in whoever holds the descriptors.
Failure OpenSources(const JailSpec& spec, int fds[kMaxMounts]);
// In the jail, before and after the scratch file system covers them.
Failure TakeLate(const JailSpec& spec, const BuildFds& fds, LateMounts* late);
Failure AttachLate(const LateMounts& late);

}  // namespace cella::jail
