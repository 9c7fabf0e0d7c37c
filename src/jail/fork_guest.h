// How a copy of a zygote becomes a guest: it moves, from outside, into a jail that a maker made. Runs between fork and
// the first line of Python. The order is the one of steps.h: resource groups before anything is touched, namespaces
// while there are capabilities, the filter last.
//
// A zygote has no capabilities. Its user owns the user namespaces of the jails, which is all that entering one takes;
// in there a process has every capability. A process cannot leave again, so the zygote has an usher do that: a child
// that shares its memory, enters the jail's user and pid namespaces, and forks the newborn.
#pragma once

#include "jail/failure.h"
#include "jail/protocol.h"

namespace cella::jail {

// Whether a request makes sense.
Failure CheckFork(const ForkSpec& spec, int fd_count);

// In the usher: its children are born with the capabilities of the jail's user namespace, into its pid namespace.
Failure EnterUserAndPidNamespace(const int* fds);

// In the newborn. `fds` as in ForkFd; `data_base` is what the zygote's own data takes. On success only the standard
// streams and *session are open, the session's socket at a high number; the three numbers above it are duplicates of
// the standard streams, to repair them from.
Failure MoveIn(const ForkSpec& spec, const int* fds, uint64_t data_base, int* session);

}  // namespace cella::jail
