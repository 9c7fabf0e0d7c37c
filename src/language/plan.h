// From a block of code to the files, commands and visible directories of a run: what every executor that starts
// programs needs to know about a language. Blocks for as long as tools must be asked about themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cella/run.h"
#include "language/host_env.h"
#include "language/python.h"
#include "language/table.h"

namespace cella::language {

inline constexpr uint64_t kMaxCodeBytes = uint64_t{32} << 20;

using cella::Block;

struct PlanOptions {
  std::vector<std::string> args;  // of the program
  std::string directory;          // the workspace as commands see it, where they do not run in it; empty: they do
  std::string file_name;          // what the file is called when it came from one; empty: comment, else generated
  std::string python;             // see PythonRequest
  std::string venv;
  // Another root tree: nothing is looked up on the host, commands have bare names and candidates, nothing is visible.
  std::string rootfs;
  std::string scratch_dir = "/tmp";  // inside: private, writable, may hold programs
  Destination destination = Destination::kJail;
  HostEnv host;
};

enum class Purpose { kCompile, kRun };

struct Command {
  Purpose purpose = Purpose::kRun;
  std::vector<std::string> argv;
  // With a rootfs: the names to try for argv[0], best first, on the PATH inside. Empty: argv[0] is settled.
  std::vector<std::string> candidates;
};

struct Plan {
  std::string language;
  std::string file_name;  // below the workspace, which is the current directory of every command
  std::string code;
  bool named_by_code = false;     // its first line names the file, so the code's author wants the file
  std::string generated_file;     // where the name was generated: the file as the commands name it; else empty
  bool save_only = false;         // there are no commands: the file is all
  std::vector<Command> commands;  // in order; the last one runs the program
  // With a rootfs: further ways, in order, for when no candidate of `commands` is there.
  std::vector<std::vector<Command>> fallbacks;
  std::vector<std::string> visible;  // host directories to show read-only, each at its own path
  std::vector<std::string> etc;      // entries below the host's /etc to show read-only
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<std::string> path_dirs;  // to put in front of the guest's PATH
  std::string install;                 // the hint for when a candidate is missing
  std::optional<Python> python;        // when one was resolved
};

// kInvalid: unknown language, bad file name, NUL in code or arguments, code too large. kNotFound: no tool; the message
// names those looked for and how to install one. kUnsupported: it is there, but cannot be shown to a guest.
Result<Plan> MakePlan(const LanguageTable& table, const Block& block, const PlanOptions& options);

}  // namespace cella::language
