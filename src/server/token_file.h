// Changes a token file as `cella token` does: under a lock, by a new file that takes the old one's place, so that a
// server that reads it and a crash in the middle find all of it or nothing. Blocks for a moment.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::server {

// Makes a token for the client, appends its hash and returns the token, which is then nowhere else. The file and its
// directory are made (0600, 0700) when they are not there. kInvalid: the client has one already, or the file is bad.
Result<std::string> AddToken(const std::string& path, std::string_view client);

// kNotFound: there is no such client.
Status RemoveToken(const std::string& path, std::string_view client);

}  // namespace cella::server
