// Programs that `cella bench` starts on the host: the alternatives, and the interpreter that all of them share.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "language/python.h"
#include "os/process.h"

namespace cella::cli {

// The interpreter that is measured. It is run bare, on the host: only what was asked for by name, no virtual
// environment.
Result<language::Python> BenchPython(const std::string& wanted);

// With our own environment; argv[0] is the program's path.
Result<os::Process> StartOnHost(const std::vector<std::string>& argv, std::vector<os::SpawnOptions::Fd> fds);

}  // namespace cella::cli
