// Results and isolation as JSON values, for surfaces that put them into a document of their own.
#pragma once

#include <nlohmann/json.hpp>

#include "cella/event.h"
#include "cella/outcome.h"
#include "run/executor.h"

namespace cella::session {

// Keys keep the order in which the documentation lists them.
nlohmann::ordered_json JsonOf(const RunResult& result);
nlohmann::ordered_json JsonOf(const Isolation& isolation);
// null: nothing counts it.
nlohmann::ordered_json JsonOf(const run::GuestUsage& usage);

}  // namespace cella::session
