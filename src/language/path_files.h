// What the .pth files of a virtual environment add to its module path, as editable installs do. Data alone: lines that
// are code are left out.
#pragma once

#include <string>
#include <vector>

#include "language/host_env.h"

namespace cella::language {

// Existing directories, in their order. A directory counts if only root and the caller could have written it and the
// file that names it, and no guest of any process of the caller (host.guests; null: none counts). Otherwise a guest
// could name a private directory for the next guest to read. `version` is that of the environment's Python ("3.11.7").
// Blocks on the file system.
std::vector<std::string> PathFileDirectories(const std::string& virtual_env, const std::string& version,
                                             const HostEnv& host);

}  // namespace cella::language
