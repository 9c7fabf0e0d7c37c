// The directories that guests were given to write to by any process of the caller: a file of the caller's own, since a
// later command cannot know what an earlier one gave away. Blocks on the file system. Safe from any thread and process.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "language/code_trust.h"

namespace cella::language {

// `directory` is made where it is missing. Failing is not an error: ReadGuestRecord fails as well then.
void AppendToGuestRecord(const std::string& directory, std::span<const GuestDirectories::Entry> entries);

// Nothing: there is no record, and none can be kept; or it is not the caller's alone, or broken.
std::optional<std::vector<GuestDirectories::Entry>> ReadGuestRecord(const std::string& directory);

}  // namespace cella::language
