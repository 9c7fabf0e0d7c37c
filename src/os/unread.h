// How much of a pipe or socket waits to be read.
#pragma once

#include <cstddef>

namespace cella::os {

// Bytes that read(2) would give now; 0 also for a descriptor that has no such number.
size_t UnreadBytes(int fd);

}  // namespace cella::os
