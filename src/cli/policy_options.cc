#include "cli/policy_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <climits>
#include <cstdlib>

#include "base/units.h"
#include "language/host_path.h"

namespace cella::cli {
namespace {

template <typename T, typename Parse>
Status Apply(const char* option, const std::optional<std::string>& text, Parse parse, Limit<T>* limit) {
  if (!text) return {};
  auto value = parse(*text);
  if (!value) return std::unexpected(std::move(value.error()).WithContext(option));
  *limit = {*value, true};
  return {};
}

Status ParseLimits(const PolicyOptions& options, Limits* limits) {
  TRY_VOID(Apply("--timeout", options.timeout, ParseDuration, &limits->timeout));
  TRY_VOID(Apply("--cpu-time", options.cpu_time, ParseDuration, &limits->cpu_time));
  TRY_VOID(Apply("--memory", options.memory, ParseByteSize, &limits->memory));
  TRY_VOID(Apply("--pids", options.pids, ParseCount, &limits->pids));
  TRY_VOID(Apply("--disk", options.disk, ParseByteSize, &limits->disk));
  TRY_VOID(Apply("--open-files", options.open_files, ParseCount, &limits->open_files));
  TRY_VOID(Apply("--output-limit", options.output_limit, ParseByteSize, &limits->output));
  if (options.cpus) {
    auto cpus = ParseCpus(*options.cpus);
    if (!cpus) return std::unexpected(std::move(cpus.error()).WithContext("--cpus"));
    limits->cpus = *cpus;
  }
  if (limits->memory.value < kMinMemory) {
    return Err(ErrorCode::kInvalid, "--memory: at least {} is needed", FormatByteSize(kMinMemory));
  }
  if (limits->open_files.value < kMinOpenFiles) {
    return Err(ErrorCode::kInvalid, "--open-files: at least {} are needed", kMinOpenFiles);
  }
  return {};
}

Status ParseEnvironment(const PolicyOptions& options, Policy* policy) {
  for (const std::string& pair : options.env) {
    size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Err(ErrorCode::kInvalid, "--env: '{}' is not NAME=VALUE (use --pass-env to pass a variable on)", pair);
    }
    policy->env.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  for (const std::string& name : options.pass_env) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return Err(ErrorCode::kInvalid, "--pass-env: '{}' is not set", name);
    policy->env.emplace_back(name, value);
  }
  return {};
}

// SRC:DST[:ro|rw]
Result<Mount> ParseMount(const std::string& text) {
  size_t first = text.find(':');
  size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  auto mode = second == std::string::npos ? MountMode::kReadOnly : ParseMountMode(text.substr(second + 1));
  if (first == 0 || first == std::string::npos || !mode) {
    return Err(ErrorCode::kInvalid, "--mount: '{}' is not SOURCE:TARGET[:ro|rw]", text);
  }
  return Mount{text.substr(0, first), text.substr(first + 1, second == std::string::npos ? second : second - first - 1),
               *mode};
}

using Paths = std::vector<std::string>;

// As real paths: the policy still holds what was typed.
Paths RealGuestWritable(const Policy& policy) {
  Paths paths;
  for (const std::string& path : GuestWritable(policy)) {
    std::array<char, PATH_MAX> real;
    // What does not exist is refused later, with its name.
    if (realpath(path.c_str(), real.data()) != nullptr) paths.emplace_back(real.data());
  }
  return paths;
}

}  // namespace

Status ResolvePath(const char* option, std::string* path, const Paths& guest_writable) {
  if (path->empty()) return {};
  auto resolved = language::ResolveHostPath(*path, guest_writable);
  if (!resolved) return std::unexpected(std::move(resolved.error()).WithContext(option));
  *path = std::move(*resolved);
  return {};
}

CLI::Option* OptionalText(CLI::App& command, const char* name, std::optional<std::string>* value, const char* help) {
  return command.add_option_function<std::string>(name, [value](const std::string& text) { *value = text; }, help);
}

void DeclarePolicyOptions(CLI::App& command, PolicyOptions* o) {
  command.add_option("-e,--executor", o->executor, "sandbox (default) or local")
      ->check(CLI::IsMember({"sandbox", "local"}));

  const std::string limits = "Limits";
  OptionalText(command, "--timeout", &o->timeout, "Wall time (60s)")->group(limits);
  OptionalText(command, "--cpu-time", &o->cpu_time, "Processor time of all processes (60s)")->group(limits);
  OptionalText(command, "--memory", &o->memory, "Memory of all processes, no swap (1g)")->group(limits);
  OptionalText(command, "--cpus", &o->cpus, "Share of processors, e.g. 1.5 (all)")->group(limits);
  OptionalText(command, "--pids", &o->pids, "Processes and threads (128)")->group(limits);
  OptionalText(command, "--disk", &o->disk, "Files written, and the size of one (1g)")->group(limits);
  OptionalText(command, "--open-files", &o->open_files, "Open files per process (1024)")->group(limits);
  OptionalText(command, "--output-limit", &o->output_limit, "Kept bytes of each output stream (1m; plain output: all)")
      ->group(limits);
  command.add_flag("--best-effort", o->best_effort, "Report limits that cannot be enforced instead of refusing")
      ->group(limits);

  command.add_option("--network", o->network, "none (default in the sandbox) or host")
      ->check(CLI::IsMember({"none", "host"}))
      ->group(kInsideGroup);
  command.add_option("--env", o->env, "Set a variable: NAME=VALUE (repeatable)")
      ->allow_extra_args(false)
      ->group(kInsideGroup);
  command.add_option("--pass-env", o->pass_env, "Pass a variable of yours on (repeatable)")
      ->allow_extra_args(false)
      ->group(kInsideGroup);
  command.add_flag("--inherit-env", o->inherit_env, "local: pass your whole environment")->group(kInsideGroup);
  OptionalText(command, "--workdir", &o->workdir, "Use this directory, writable, as the workspace")
      ->group(kInsideGroup);
  command.add_option("--mount", o->mounts, "Show a host path: SOURCE:TARGET[:ro|rw] (repeatable)")
      ->allow_extra_args(false)
      ->group(kInsideGroup);
  command.add_option("--python", o->python, "Interpreter: a version (3.12) or a path")->group(kInsideGroup);
  command.add_option("--venv", o->venv, "Python virtual environment")->group(kInsideGroup);
  command.add_option("--rootfs", o->rootfs, "Another root tree (debootstrap, an unpacked image)")->group(kInsideGroup);
}

Result<ParsedPolicy> ParsePolicy(const PolicyOptions& options) {
  ParsedPolicy parsed;
  parsed.executor = ParseExecutorKind(options.executor).value_or(ExecutorKind::kSandbox);
  Policy& policy = parsed.policy;
  TRY_VOID(ParseLimits(options, &policy.limits));
  TRY_VOID(ParseEnvironment(options, &policy));
  policy.network = ParseNetwork(options.network).value_or(Network::kNone);
  if (parsed.executor == ExecutorKind::kLocal) {
    if (options.network == "none") {
      return Err(ErrorCode::kUnsupported,
                 "--network none: the local executor cannot enforce it; use --executor sandbox");
    }
    policy.network = Network::kHost;
  } else if (options.inherit_env) {
    return Err(ErrorCode::kInvalid, "--inherit-env is for --executor local; name variables with --pass-env");
  }
  policy.inherit_env = options.inherit_env;
  policy.best_effort = options.best_effort;
  if (options.workdir == "") return Err(ErrorCode::kInvalid, "--workdir: the directory has no name");
  policy.workdir = options.workdir.value_or("");
  policy.rootfs = options.rootfs;
  policy.venv = options.venv;
  policy.python = options.python;
  for (const std::string& text : options.mounts) {
    TRY(Mount mount, ParseMount(text));
    policy.mounts.push_back(std::move(mount));
  }
  // The local executor has no guests to guard against.
  if (parsed.executor == ExecutorKind::kLocal) return parsed;
  parsed.guest_writable = RealGuestWritable(policy);
  // Links that an earlier guest left in a directory must not choose what this one gets.
  TRY_VOID(ResolvePath("--workdir", &policy.workdir, parsed.guest_writable));
  TRY_VOID(ResolvePath("--rootfs", &policy.rootfs, parsed.guest_writable));
  for (Mount& mount : policy.mounts) TRY_VOID(ResolvePath("--mount", &mount.source, parsed.guest_writable));
  return parsed;
}

}  // namespace cella::cli
