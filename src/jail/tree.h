// The root tree of a jail: see steps.h for when each step runs.
#pragma once

#include "jail/build.h"
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

// By their names: the path is one of an entry in the directory, or further below.
bool Below(const char* path, const char* directory);

Failure EnterOwnMounts(const JailSpec& spec);
Failure BuildTree(const JailSpec& spec);
// The sources of all mounts, detached; they outlive this process in the processes that hold the descriptors.
Failure OpenSources(const JailSpec& spec, int fds[kMaxMounts]);
// Puts the mounts that came for one jail into place, in a mount namespace of its own but in the maker's user namespace:
// the jail is then cloned from there, so that they are locked in it as everything else is. There are as many as it
// wants.
Failure AttachGiven(const JailSpec& spec, BuildFds* fds);
// In the jail, before and after the scratch file system covers them.
Failure TakeLate(const JailSpec& spec, const BuildFds& fds, LateMounts* late);
Failure AttachLate(const LateMounts& late);

}  // namespace cella::jail
