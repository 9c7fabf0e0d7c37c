// From a spec to a running init: the whole sequence of steps.h. Called once per launcher process, single-threaded.
#pragma once

#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

// The descriptors that came with a build request, in the order of the spec.
struct BuildFds {
  const int* cgroup_v1 = nullptr;
  int cgroup_v2 = -1;
};

// Builds the jail and leaves init running; reports over `control`. On success *init_pidfd is init.
Failure BuildJail(const JailSpec& spec, const BuildFds& fds, int control, int* init_pidfd);

// The `local` executor: no jail. Becomes the root of the guest's process tree and serves requests until the end.
[[noreturn]] void RunUnconfined(const JailSpec& spec, const BuildFds& fds, int control);

}  // namespace cella::jail
