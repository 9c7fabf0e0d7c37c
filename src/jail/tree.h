// The root tree of a jail: see steps.h for when each step runs.
#pragma once

#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

// Mounts whose place lies below the scratch file system: they are taken aside, detached, until that is mounted.
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
// In the jail, before and after the scratch file system covers them.
Failure TakeLate(const JailSpec& spec, LateMounts* late);
Failure AttachLate(const LateMounts& late);

}  // namespace cella::jail
