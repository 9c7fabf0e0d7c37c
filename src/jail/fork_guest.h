// How a copy of a zygote becomes a guest: it moves, from outside, into a jail that a maker made. Runs in the newborn,
// between fork and the first line of Python. The order is the one of steps.h: resource groups before anything is
// touched, namespaces while there are capabilities, the filter last.
#pragma once

#include "jail/failure.h"
#include "jail/protocol.h"

namespace cella::jail {

// Before the fork, by the zygote: its children are born into the jail's pid namespace.
Failure AimAtPidNamespace(const ForkSpec& spec, const int* fds, int fd_count);

// In the newborn. `fds` as in ForkFd; `data_base` is what the zygote's own data takes. On success only the standard
// streams and *session are open, the session's socket at a high number; the three numbers above it are duplicates of
// the standard streams, to repair them from.
Failure MoveIn(const ForkSpec& spec, const int* fds, uint64_t data_base, int* session);

}  // namespace cella::jail
