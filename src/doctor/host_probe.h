// What the kernel and the files of the system tell about themselves; nothing is changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace cella::doctor {

// The value of NAME in "NAME=value" entries, or "".
std::string_view Lookup(const std::vector<std::string>& environment, std::string_view name);

// All but `builder` and `directory`.
HostFacts ObserveHost(const std::vector<std::string>& environment);

}  // namespace cella::doctor
