// The options that say where code runs and what it may use: the same words for one-shot runs and sessions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cella::cli {

inline constexpr const char* kInsideGroup = "What the program sees";

struct PolicyOptions {
  // As typed. An empty limit or directory is not the same as none: somebody's variable was not set.
  std::string executor = "sandbox";
  std::optional<std::string> timeout, cpu_time, memory, cpus, pids, disk, open_files, output_limit, workdir;
  std::string network;
  std::vector<std::string> env, pass_env, mounts;
  bool inherit_env = false, best_effort = false;
  std::string venv, python, rootfs;
};

void DeclarePolicyOptions(CLI::App& command, PolicyOptions* options);

struct ParsedPolicy {
  Policy policy;
  ExecutorKind executor = ExecutorKind::kSandbox;
  std::vector<std::string> guest_writable;  // real paths
};

Result<ParsedPolicy> ParsePolicy(const PolicyOptions& options);

// An option whose value may be empty: CLI11 takes that as "not given", and we want to know.
CLI::Option* OptionalText(CLI::App& command, const char* name, std::optional<std::string>* value, const char* help);

// The real path, following no link that guests may have made.
Status ResolvePath(const char* option, std::string* path, const std::vector<std::string>& guest_writable);

}  // namespace cella::cli
