// The options of `cella run`, as given. Values are checked here; what the machine can do is checked by the executor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cella/run.h"
#include "cli/package_options.h"
#include "cli/policy_options.h"

namespace CLI {
class App;
}

namespace cella::cli {

enum class Rendering { kPlain, kJson, kEvents };

struct RunOptions {
  TypedKeys policy;
  PackageOptions packages;
  std::string file, code, lang;
  bool has_code = false;
  std::optional<std::string> out;
  std::vector<std::string> files;
  bool json = false, events = false, summary = false;
  std::vector<std::string> words;  // behind FILE
  std::vector<std::string> args;   // behind --
};

// Declares the options on the subcommand.
void DeclareRunOptions(CLI::App& command, RunOptions* options);

struct ParsedRun {
  RunSpec run;
  SessionSpec spec;
  UniqueFd standard_input;  // what `run` reads; empty: nothing
  Rendering rendering = Rendering::kPlain;
  bool summary = false;
  bool cap_plain_output = false;
};

// kInvalid: there is no code, or code from two places.
Status CheckCommandLine(const RunOptions& options);

// Reads the code and input files. kInvalid and kNotFound mean that nothing will run.
Result<ParsedRun> ParseRun(const RunOptions& options);

}  // namespace cella::cli
