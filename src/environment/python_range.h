// Whether a Python's version lies in what requires-python permits. Pure.
#pragma once

#include <string_view>

namespace cella::environment {

// `version` is "3.12.1"; `specifiers` are canonical, as ParseSpecifiers writes them. Empty specifiers permit all.
bool Permits(std::string_view specifiers, std::string_view version);

}  // namespace cella::environment
