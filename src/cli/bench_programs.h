// Programs that `cella bench` starts on the host: the alternatives, and the interpreter that all of them share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/python.h"
#include "os/process.h"

namespace cella::cli {

// The interpreter that is measured. It is run bare, on the host: one of the system or of a version manager, no virtual
// environment.
Result<language::Python> BenchPython(const std::string& wanted);

// In the system's directories; "" when there is none.
std::string FindHostProgram(std::string_view name);

// With our own environment; argv[0] is the program's path.
Result<os::Process> StartOnHost(const std::vector<std::string>& argv, std::vector<os::SpawnOptions::Fd> fds);

}  // namespace cella::cli
