// The runners and the agent as a tar archive, for an engine that does not see the directory in which they are
// installed.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::executor {

// The regular files below `directory`. Blocks; a megabyte or two.
Result<std::string> ArchivePrograms(const std::string& directory);

}  // namespace cella::executor
