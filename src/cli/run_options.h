// The options of `cella run`, as given. Values are checked here; what the machine can do is checked by the executor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"
#include "executor/executor.h"

namespace CLI {
class App;
}

namespace cella::cli {

enum class ExecutorKind { kSandbox, kLocal };
enum class Rendering { kPlain, kJson, kEvents };

struct RunOptions {
  // As typed. An empty limit or directory is not the same as none: somebody's variable was not set.
  std::string file, code, lang, executor = "sandbox";
  bool has_code = false;
  std::optional<std::string> timeout, cpu_time, memory, cpus, pids, disk, open_files, output_limit, workdir, out;
  std::string network;
  std::vector<std::string> env, pass_env, mounts, files;
  bool inherit_env = false, best_effort = false, json = false, events = false, summary = false;
  std::string venv, python, rootfs;
  std::vector<std::string> args;
};

// Declares the options on the subcommand.
void DeclareRunOptions(CLI::App& command, RunOptions* options);

struct ParsedRun {
  executor::RunRequest request;
  ExecutorKind executor = ExecutorKind::kSandbox;
  Rendering rendering = Rendering::kPlain;
  bool summary = false;
  bool cap_plain_output = false;
};

// Reads the code and input files. kInvalid and kNotFound mean that nothing will run.
Result<ParsedRun> ParseRun(const RunOptions& options);

}  // namespace cella::cli
