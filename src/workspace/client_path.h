// Names of files as clients and archives give them: relative, '/' separated, and without anything that could mean more
// than one thing. The file system's own walls (os/directory.h) stand behind this; here a bad name gets its sentence.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::workspace {

struct PathBounds {
  size_t bytes = 4095;  // the kernel's PATH_MAX
  size_t depth = 64;    // as deep as os::Directory lists and removes
};

// kInvalid for an empty or absolute path, an empty, "." or ".." part, a NUL, and what is too long or too deep.
Status CheckClientPath(std::string_view path, PathBounds bounds = {});

// For messages: valid UTF-8 without control characters, shortened.
std::string ShownName(std::string_view name);

}  // namespace cella::workspace
