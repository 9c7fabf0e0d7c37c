// Random names.
#pragma once

#include <cstddef>
#include <string>

namespace cella {

// Random hexadecimal digits from the kernel.
std::string RandomHex(size_t digits);

}  // namespace cella
