// Where file systems are mounted in the mount namespace of this process: the text of /proc/self/mountinfo.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::os {

Result<std::vector<std::string>> MountPoints();

// The same from such a text. Pure.
std::vector<std::string> ParseMountPoints(std::string_view mountinfo);

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string UnescapeMountPath(std::string_view text);

}  // namespace cella::os
