// A Result as it is kept: its JSON, bounded.
#pragma once

#include <cstddef>
#include <string>

#include "cella/outcome.h"

namespace cella::registry {

// The whole Result where it fits. Else the representations of its outputs are left out and named. If that is not
// enough, outputs and the list of files are left out and texts keep their head and tail, counted as for every other
// truncation, so that it stays a Result. Below a few kilobytes nothing fits: then empty.
std::string StoredResult(RunResult result, size_t cap);

// {"wall_ms": …}
std::string StoredUsage(const Usage& usage);

}  // namespace cella::registry
