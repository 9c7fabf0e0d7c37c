// Runs a trusted program of the host for a moment and returns what it printed: how interpreters and version managers
// are asked about themselves. Blocks up to the deadline; safe in a threaded program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"

namespace cella::language {

struct Question {
  std::vector<std::string> argv;  // argv[0] is an absolute path
  std::vector<std::string> env;   // "NAME=value"; nothing else is inherited
  std::string cwd;                // empty: "/"
  std::chrono::milliseconds timeout{10'000};
  // See CheckRunnable, which the program must pass.
  std::vector<std::string> guest_writable{};
  std::string virtual_env{};
};

// With the caller's environment and directory, as far as no guest may have had a hand in them.
Question QuestionFor(const HostEnv& host, std::vector<std::string> argv);

// What it wrote to standard output. An error when it could not be started, exited non-zero (the message holds the end
// of its standard error), wrote more than 64 KiB, or took too long; its process group is then gone. kUnsupported
// without starting it when it must not be run on the host.
Result<std::string> Ask(const Question& question);

}  // namespace cella::language
