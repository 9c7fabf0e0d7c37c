// A listening Unix stream socket in a directory that only we can enter.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::os {

// Replaces a socket that is there. kInvalid: the path is too long for a socket.
Result<UniqueFd> ListenUnix(const std::string& path, int backlog);

}  // namespace cella::os
