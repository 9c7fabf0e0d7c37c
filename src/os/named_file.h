// A file that the caller names to be read. It may be a pipe (`<(…)` of a shell), which ReadFile of os/io.h refuses.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cella::os {

// Waits for the writer of a pipe, so not for a path that a guest could have written, nor for a loop that serves.
// Refused beyond `limit` bytes.
Result<std::string> ReadNamedFile(const std::string& path, uint64_t limit);

}  // namespace cella::os
