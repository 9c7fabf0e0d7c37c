// Finds a program on the caller's PATH and describes what of the host a guest must see to run it. Blocks for the moment
// that a version manager takes to answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"
#include "language/table.h"

namespace cella::language {

struct Tool {
  std::string program;                 // as it must be exec'ed: programs look at the name they are called by
  std::string real;                    // its real path
  std::vector<std::string> visible;    // host directories to show read-only, each at its own path
  std::vector<std::string> etc;        // entries below /etc that its links lead over ("alternatives")
  std::vector<std::string> path_dirs;  // to put in front of PATH; empty: it is on every PATH
};

// Every executable regular file `name` on `path`, in its order. Relative and empty elements of the path are skipped:
// a guest's workspace could provide them.
std::vector<std::string> FindOnPath(std::string_view name, std::string_view path);

// How to see through a proxy; an empty argv: there is no way.
struct AskCommand {
  std::vector<std::string> argv;
  AskGives gives = AskGives::kProgram;
};

// The first on PATH, as it is, for a program that runs on the host.
Result<Tool> FindTool(std::string_view name, const HostEnv& host);

// For a jail. kNotFound: not on PATH. kUnsupported: it is there, and cannot be shown to a guest; the message names the
// remedy.
Result<Tool> LocateTool(std::string_view name, const HostEnv& host, const AskCommand& ask);

// What a given absolute path needs.
Result<Tool> DescribeTool(const std::string& program, const HostEnv& host);

// The question with these arguments. The program sees what it would see in a run, and nothing else.
ToolQuery QueryFor(const Tool& tool, const std::vector<std::string>& arguments);

// The version that the program prints for --version is at least `wanted` ("22.6").
Result<bool> HasVersion(const Tool& tool, std::string_view wanted, const HostEnv& host);

// -1, 0, 1 by the numbers of dotted versions; what one lacks counts as 0.
int CompareVersions(std::string_view a, std::string_view b);

}  // namespace cella::language
