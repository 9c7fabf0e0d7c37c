// The maker: a long-lived process that has built a root tree once and makes jails of it on request ("jails": all
// namespaces, the mounts, our init), and starts the zygotes whose copies move in. It is PID 1 of a world of its own
// (user, pid, mount and the other namespaces), in which zygotes and jails are the only others: outside it is an
// unprivileged user without a view of the host, and its end is the end of them all.
#pragma once

#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

// Builds the tree and leaves the maker running as a child of our parent; it reports over `control`. On success
// *pidfd is the maker. `spec` is one private, writable mapping, which the maker keeps.
Failure BuildMaker(JailSpec* spec, int control, int* pidfd);

}  // namespace cella::jail
