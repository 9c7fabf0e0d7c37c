// Directories of the caller's own, for what cella remembers between commands. Blocks on the file system.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/unique_fd.h"

namespace cella::language {

enum class Missing { kIsMade, kIsLeft };

// Empty: it does not exist, or others may write to it (below sudo it may be another user's).
UniqueFd OpenOwnDirectory(const std::string& path, Missing missing);

// Only the caller may have written what is believed.
bool IsOursAlone(const struct stat& info);

}  // namespace cella::language
