// From a spec to a running init: the whole sequence of steps.h. Single-threaded.
#pragma once

#include "jail/failure.h"
#include "jail/spec.h"
#include "jail/steps.h"

namespace cella::jail {

// The descriptors that came with a build request, in the order of the spec.
struct BuildFds {
  const int* cgroup_v1 = nullptr;
  int cgroup_v2 = -1;
  const int* mounts = nullptr;  // of a maker's jail: see EmptyJailSpec
  uint32_t mount_count = 0;
  const char* stage = nullptr;  // where AttachGiven has put those that must wait
};

// A launcher's one request: its spec, and the descriptors that came with it (`fds`, kMaxMessageFds). Null: it makes no
// sense.
JailSpec* ReceiveSpec(int control, int* fds, BuildFds* build);

enum class Parent { kUs, kOurs };

// Starts init in its namespaces, from within the finished tree; it reports over `control`. `parent` is whose child it
// becomes: this process's, or this process's parent's.
Failure CloneInit(const JailSpec& spec, const BuildFds& fds, int control, Parent parent, int* init_pidfd);

// Builds one jail and leaves init running; once per process. On success *init_pidfd is init.
Failure BuildJail(const JailSpec& spec, const BuildFds& fds, int control, int* init_pidfd);

// No jail: opens the sources of the spec's mounts with the caller's rights, and reports them.
Failure HandOverSources(const JailSpec& spec, int control);

// The `local` executor: no jail. Becomes the root of the guest's process tree and serves requests until the end. With
// an interpreter, whose copy this process is, its programs can be forks of it.
[[noreturn]] void RunUnconfined(const JailSpec& spec, const BuildFds& fds, int control,
                                const Interpreter* interpreter = nullptr);

}  // namespace cella::jail
