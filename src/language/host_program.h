// What may be run on the host. Guests get writable directories, and what lies there afterwards may be theirs: a tool
// that is asked about itself must come from elsewhere. Looks at the file system only; keeps nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::language {

// `program` is absolute. kUnsupported: it, a link on the way to it or its real file lies where guests may write
// (`guest_writable`: real paths) or in a virtual environment (also `virtual_env`, the active one), it belongs to
// another user, or everybody may replace it. kNotFound: there is none.
Status CheckRunnable(const std::string& program, std::span<const std::string> guest_writable,
                     std::string_view virtual_env);

// An absolute directory's literal and real path; nothing when it is relative.
std::vector<std::string> NamesOf(std::string_view dir);

// The virtual environment that a program calls its own because of where it lies (PREFIX/bin/python beside
// PREFIX/pyvenv.cfg), else "". By the literal path, as Python does it.
std::string VirtualEnvironmentOf(const std::string& program);

}  // namespace cella::language
