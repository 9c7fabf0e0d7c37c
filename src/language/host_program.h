// Which programs may be started outside a jail: those that no guest can have written. Looks at the file system only.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace cella::language {

// `program` is absolute. kPermission: it, or what it leads to, lies neither below a system directory nor below one of
// `places` (the caller's own, which no guest was given), or a user other than root and the caller may exchange it.
// kNotFound: there is none.
Status CheckHostProgram(const std::string& program, std::span<const std::string> places = {});

}  // namespace cella::language
