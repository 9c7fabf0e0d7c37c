// One line of a user or group id map. `pid` 0 is the calling process.
#pragma once

#include "jail/failure.h"

namespace cella::jail {

Failure WriteIdMap(int pid, const char* which, uint32_t inside, uint32_t outside, Stage stage);

// A kernel file that takes one short write.
Failure WriteKernelFile(const char* path, const char* text, Stage stage);

}  // namespace cella::jail
