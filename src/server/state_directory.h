// The directories of a server on disk: private to its user, and without what a server that died left in them.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::server {

// Makes a directory and those above it, 0700. kPermission: it is there, and others can write to it.
Status MakePrivateDirectory(const std::string& path);

// Removes the files in it. Directories stay.
Status EmptyDirectory(const std::string& path);

}  // namespace cella::server
