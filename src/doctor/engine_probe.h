// Container engines that could serve the `container` executor: can their sockets be connected to?
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace cella::doctor {

// Every address worth knowing, in the order in which they would be used. Only socket files are contacted, and nothing
// is sent; an engine that systemd starts on demand is started by it.
std::vector<EngineAddress> TryEngines(const std::vector<std::string>& environment);

}  // namespace cella::doctor
