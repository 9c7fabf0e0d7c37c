// A question to a program of the host (its version, its prefix, which real program it starts), as a value, and the
// port by which it is asked. A guest may have planted any program that a user names, so the only implementation
// (executor/ask_program.h) starts it in a jail that shows what the query lists and nothing else.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::language {

struct ToolQuery {
  std::vector<std::string> argv;     // argv[0] is an absolute path
  std::vector<std::string> env;      // "NAME=value"; nothing else is inherited
  std::vector<std::string> visible;  // host directories and files shown read-only, each at its own path
  std::vector<std::string> etc;      // entries below /etc shown beside the usual ones
  std::chrono::milliseconds timeout{10'000};
};

// The variables that every question has: a private HOME, and a PATH of `path_dirs` and the system's directories.
std::vector<std::string> CleanEnvironment(const std::vector<std::string>& path_dirs);

class ToolAsker {
 public:
  virtual ~ToolAsker() = default;

  // What the program wrote to standard output. Blocks up to the deadline; safe from several threads. kUnsupported: it
  // exited non-zero (the message holds the end of its standard error) or wrote more than 64 KiB. kExhausted: it took
  // too long. kPermission: no jail can be built here, and the program may not be started without one.
  virtual Result<std::string> AskProgram(const ToolQuery& query) const = 0;
};

}  // namespace cella::language
