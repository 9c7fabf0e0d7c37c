// The one way in which cella starts a program only to ask it something: in a jail without network, in which nothing of
// the host can be written, with a clean environment, within bounds of time, memory, processes and output.
#pragma once

#include <memory>
#include <string>

#include "language/tool_query.h"

namespace cella::confine {

// Keeps no state; may be used by several threads. `launcher` is the path of cella-jail. On a machine that permits no
// jail at all, programs of the system are started without one (see language/host_program.h), and others are refused.
std::shared_ptr<const language::ToolAsker> MakeProgramAsker(std::string launcher);

}  // namespace cella::confine
