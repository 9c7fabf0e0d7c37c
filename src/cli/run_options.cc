#include "cli/run_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <climits>
#include <cstdlib>

#include "base/units.h"
#include "language/filename.h"
#include "language/host_path.h"
#include "os/io.h"

namespace cella::cli {
namespace {

constexpr uint64_t kMaxInputFile = uint64_t{1} << 30;

template <typename T, typename Parse>
Status Apply(const char* option, const std::optional<std::string>& text, Parse parse, Limit<T>* limit) {
  if (!text) return {};
  auto value = parse(*text);
  if (!value) return std::unexpected(std::move(value.error()).WithContext(option));
  *limit = {*value, true};
  return {};
}

Status ParseLimits(const RunOptions& options, Limits* limits) {
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
  // Below these no interpreter starts, and the reason would be hard to see.
  if (limits->memory.value < (uint64_t{1} << 20)) return Err(ErrorCode::kInvalid, "--memory: at least 1m is needed");
  if (limits->open_files.value < 16) return Err(ErrorCode::kInvalid, "--open-files: at least 16 are needed");
  return {};
}

Status ParseEnvironment(const RunOptions& options, Policy* policy) {
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
  std::string mode = second == std::string::npos ? "ro" : text.substr(second + 1);
  if (first == 0 || first == std::string::npos || (mode != "ro" && mode != "rw")) {
    return Err(ErrorCode::kInvalid, "--mount: '{}' is not SOURCE:TARGET[:ro|rw]", text);
  }
  return Mount{text.substr(0, first), text.substr(first + 1, second == std::string::npos ? second : second - first - 1),
               mode == "rw" ? MountMode::kReadWrite : MountMode::kReadOnly};
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

Status Resolve(const char* option, std::string* path, const Paths& guest_writable) {
  if (path->empty()) return {};
  auto resolved = language::ResolveHostPath(*path, guest_writable);
  if (!resolved) return std::unexpected(std::move(resolved.error()).WithContext(option));
  *path = std::move(*resolved);
  return {};
}

// Links that an earlier guest left in a directory must not choose what this one gets.
Status ResolvePaths(const Paths& guest_writable, executor::RunRequest* request) {
  Policy& policy = request->policy;
  TRY_VOID(Resolve("--workdir", &policy.workdir, guest_writable));
  TRY_VOID(Resolve("--rootfs", &policy.rootfs, guest_writable));
  for (Mount& mount : policy.mounts) TRY_VOID(Resolve("--mount", &mount.source, guest_writable));
  if (!request->out_dir.empty()) {
    auto out = language::ResolveHostDirectoryForCreation(request->out_dir, guest_writable);
    if (!out) {
      // Not a missing file or interpreter: a place to write to that is none.
      Error error = std::move(out.error()).WithContext("--out");
      error.code = ErrorCode::kInvalid;
      return std::unexpected(std::move(error));
    }
    request->out_dir = std::move(*out);
  }
  return {};
}

// SRC[:NAME]
Result<executor::InputFile> ReadInputFile(const std::string& text, const Paths& guest_writable) {
  size_t colon = text.rfind(':');
  std::string source = text.substr(0, colon);
  std::string name = colon == std::string::npos ? source.substr(source.rfind('/') + 1) : text.substr(colon + 1);
  auto checked = language::CheckFileName(name);
  if (!checked) return std::unexpected(std::move(checked.error()).WithContext("--file"));
  TRY_VOID(Resolve("--file", &source, guest_writable));
  auto content = os::ReadFile(source, kMaxInputFile);
  if (!content) return std::unexpected(std::move(content.error()).WithContext("--file"));
  return executor::InputFile{*checked, std::move(*content), access(source.c_str(), X_OK) == 0};
}

// Reading stops at the limit, so nobody knows how large it is.
Error TooLargeOr(Error error) {
  if (error.code != ErrorCode::kInvalid || error.sys_errno != 0) return error;
  return Error{
      ErrorCode::kInvalid,
      fmt::format("the code is larger than {}, and no more is accepted", FormatByteSize(language::kMaxCodeBytes)), 0};
}

Status ReadCode(const RunOptions& options, const Paths& guest_writable, executor::RunRequest* request) {
  if (options.has_code && !options.file.empty()) {
    return Err(ErrorCode::kInvalid, "give either a file or -c CODE, not both (program arguments follow '--')");
  }
  if (options.has_code) {
    request->block.code = options.code;
    return {};
  }
  if (options.file.empty()) {
    return Err(ErrorCode::kInvalid, "nothing to run: give a FILE, -c CODE, or - for standard input");
  }
  // One byte beyond the limit of the language layer, so that its sentence is the one that people see.
  const uint64_t limit = language::kMaxCodeBytes + 1;
  if (options.file == "-") {
    auto code = os::ReadFd(STDIN_FILENO, limit);
    if (!code) return std::unexpected(TooLargeOr(std::move(code.error()).WithContext("standard input")));
    request->block.code = std::move(*code);
    return {};
  }
  struct stat info;
  if (stat(options.file.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is a directory", options.file);
  }
  auto resolved = language::ResolveHostPath(options.file, guest_writable);
  if (!resolved) return std::unexpected(std::move(resolved.error()));
  auto code = os::ReadFile(*resolved, limit);
  if (!code) return std::unexpected(TooLargeOr(std::move(code.error())));
  request->block.code = std::move(*code);
  request->file_name = options.file.substr(options.file.rfind('/') + 1);
  return {};
}

Result<UniqueFd> PassedInput(const RunOptions& options) {
  if (options.file == "-") return UniqueFd();
  UniqueFd input(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!input && errno != EBADF) return SysErr(errno, "standard input");
  return input;  // a closed standard input reads as empty
}

}  // namespace

namespace {

// CLI11 takes an empty value for an optional as "not given"; we want to know.
CLI::Option* Text(CLI::App& command, const char* name, std::optional<std::string>* value, const char* help) {
  return command.add_option_function<std::string>(name, [value](const std::string& text) { *value = text; }, help);
}

}  // namespace

void DeclareRunOptions(CLI::App& command, RunOptions* o) {
  command.add_option("FILE", o->file, "The file to run; - reads the code from standard input");
  command.add_option_function<std::string>(
      "-c,--code",
      [o](const std::string& code) {
        o->code = code;
        o->has_code = true;
      },
      "The code itself");
  command.add_option("-l,--lang", o->lang, "Language; else by extension, by shebang, else python");
  command.add_option("-e,--executor", o->executor, "sandbox (default) or local")
      ->check(CLI::IsMember({"sandbox", "local"}));

  const std::string limits = "Limits";
  Text(command, "--timeout", &o->timeout, "Wall time (60s)")->group(limits);
  Text(command, "--cpu-time", &o->cpu_time, "Processor time of all processes (60s)")->group(limits);
  Text(command, "--memory", &o->memory, "Memory of all processes, no swap (1g)")->group(limits);
  Text(command, "--cpus", &o->cpus, "Share of processors, e.g. 1.5 (all)")->group(limits);
  Text(command, "--pids", &o->pids, "Processes and threads (128)")->group(limits);
  Text(command, "--disk", &o->disk, "Files written, and the size of one (1g)")->group(limits);
  Text(command, "--open-files", &o->open_files, "Open files per process (1024)")->group(limits);
  Text(command, "--output-limit", &o->output_limit, "Kept bytes of each output stream (1m; plain output: all)")
      ->group(limits);
  command.add_flag("--best-effort", o->best_effort, "Report limits that cannot be enforced instead of refusing")
      ->group(limits);

  const std::string inside = "What the program sees";
  command.add_option("--network", o->network, "none (default in the sandbox) or host")
      ->check(CLI::IsMember({"none", "host"}))
      ->group(inside);
  command.add_option("--env", o->env, "Set a variable: NAME=VALUE (repeatable)")
      ->allow_extra_args(false)
      ->group(inside);
  command.add_option("--pass-env", o->pass_env, "Pass a variable of yours on (repeatable)")
      ->allow_extra_args(false)
      ->group(inside);
  command.add_flag("--inherit-env", o->inherit_env, "local: pass your whole environment")->group(inside);
  Text(command, "--workdir", &o->workdir, "Use this directory, writable, as the workspace")->group(inside);
  command.add_option("--mount", o->mounts, "Show a host path: SOURCE:TARGET[:ro|rw] (repeatable)")
      ->allow_extra_args(false)
      ->group(inside);
  command.add_option("--file", o->files, "Copy a file in: SOURCE[:NAME] (repeatable)")
      ->allow_extra_args(false)
      ->group(inside);
  Text(command, "--out", &o->out, "Copy files that the run made or changed to this directory")->group(inside);
  command.add_option("--python", o->python, "Interpreter: a version (3.12) or a path")->group(inside);
  command.add_option("--venv", o->venv, "Python virtual environment")->group(inside);
  command.add_option("--rootfs", o->rootfs, "Another root tree (debootstrap, an unpacked image)")->group(inside);

  const std::string output = "Output";
  auto* json = command.add_flag("--json", o->json, "Print one Result as JSON")->group(output);
  command.add_flag("--events", o->events, "Print events as they happen, one JSON object a line")
      ->excludes(json)
      ->group(output);
  command.add_flag("--summary", o->summary, "Add a line on stderr: how it ended and what confined it")->group(output);
  command.footer(
      "Arguments for the program follow '--'.\n"
      "\n"
      "Examples:\n"
      "  cella run -c 'print(6 * 7)'\n"
      "  cella run script.py --memory 256m --timeout 10s -- -v input.csv\n"
      "  cella run main.rs --file data.txt --out results\n"
      "  echo 'puts 1' | cella run --lang ruby -\n"
      "\n"
      "Exit status: the program's own; 124 timeout, 125 cancelled, 126 refused, 127 missing file or interpreter,\n"
      "137 out of memory, 128+N ended by signal N; 2 wrong command line.");
}

Result<ParsedRun> ParseRun(const RunOptions& options) {
  ParsedRun run;
  run.executor = options.executor == "local" ? ExecutorKind::kLocal : ExecutorKind::kSandbox;
  run.rendering = options.json ? Rendering::kJson : options.events ? Rendering::kEvents : Rendering::kPlain;
  run.summary = options.summary;
  run.cap_plain_output = options.output_limit.has_value();

  executor::RunRequest& request = run.request;
  Policy& policy = request.policy;
  TRY_VOID(ParseLimits(options, &policy.limits));
  TRY_VOID(ParseEnvironment(options, &policy));
  policy.network = options.network == "host" ? Network::kHost : Network::kNone;
  if (run.executor == ExecutorKind::kLocal) {
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
  if (options.out == "") return Err(ErrorCode::kInvalid, "--out: the directory has no name");
  policy.workdir = options.workdir.value_or("");
  policy.rootfs = options.rootfs;
  policy.venv = options.venv;
  policy.python = options.python;
  for (const std::string& text : options.mounts) {
    TRY(Mount mount, ParseMount(text));
    policy.mounts.push_back(std::move(mount));
  }
  request.block.language = options.lang;
  request.args = options.args;
  request.list_files = run.rendering != Rendering::kPlain;
  request.out_dir = options.out.value_or("");
  // The local executor has no guests to guard against.
  const Paths guest_writable = run.executor == ExecutorKind::kSandbox ? RealGuestWritable(policy) : Paths();
  if (run.executor == ExecutorKind::kSandbox) TRY_VOID(ResolvePaths(guest_writable, &request));
  for (const std::string& text : options.files) {
    TRY(executor::InputFile file, ReadInputFile(text, guest_writable));
    request.files.push_back(std::move(file));
  }
  TRY_VOID(ReadCode(options, guest_writable, &request));
  TRY(request.standard_input, PassedInput(options));
  return run;
}

}  // namespace cella::cli
