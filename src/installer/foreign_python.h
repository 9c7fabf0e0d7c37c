// The interpreter of a container's image, as it describes itself: what packages for it must fit. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "environment/store.h"

namespace cella::installer {

struct ForeignPython {
  std::string version;                         // "3.11.2"
  std::string platform;                        // as uv names it: "x86_64-manylinux_2_36"
  std::vector<environment::Package> packages;  // sorted by name
};

// Of the JSON text of a run::GuestPython. It comes from inside a guest: everything is checked.
// kUnsupported: no packages can be installed for such an interpreter, and why.
Result<ForeignPython> ParseForeignPython(std::string_view json);

}  // namespace cella::installer
