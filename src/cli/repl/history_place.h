// Where the entries of `cella repl` are kept: $XDG_STATE_HOME/cella/history, else ~/.local/state/cella/history.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace cella::cli {

// The file's path, its directory made (0700) when it was missing. `guest_writable`: real paths of directories in which
// no link is followed. kNotFound: there is no home.
Result<std::string> HistoryPlace(std::span<const std::string> guest_writable);

}  // namespace cella::cli
