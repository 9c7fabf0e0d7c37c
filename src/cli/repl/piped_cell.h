// `cella repl` whose standard input is no terminal: all of it is one cell.
#pragma once

#include <string>

#include "cli/repl/run_view.h"
#include "session/session.h"

namespace cella::cli {

// Until it has ended, or a stop signal has ended it. The exit code of the run.
async::Task<int> RunPipedCell(async::Loop& loop, session::Session& session, RunView& view, std::string language);

}  // namespace cella::cli
