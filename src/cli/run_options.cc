#include "cli/run_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/units.h"
#include "language/filename.h"
#include "language/host_path.h"
#include "language/plan.h"
#include "os/io.h"
#include "os/named_file.h"

namespace cella::cli {
namespace {

using Paths = std::vector<std::string>;

constexpr uint64_t kMaxInputFile = uint64_t{1} << 30;

Status ResolveOut(const Paths& guest_writable, std::string* out_dir) {
  if (out_dir->empty()) return {};
  auto out = language::ResolveHostDirectoryForCreation(*out_dir, guest_writable);
  if (!out) {
    // Not a missing file or interpreter: a place to write to that is none.
    Error error = std::move(out.error()).WithContext("--out");
    error.code = ErrorCode::kInvalid;
    return std::unexpected(std::move(error));
  }
  *out_dir = std::move(*out);
  return {};
}

// SRC[:NAME]
Result<InputFile> ReadInputFile(const std::string& text, const Paths& guest_writable) {
  size_t colon = text.rfind(':');
  std::string source = text.substr(0, colon);
  std::string name = colon == std::string::npos ? source.substr(source.rfind('/') + 1) : text.substr(colon + 1);
  auto checked = language::CheckFileName(name);
  if (!checked) return std::unexpected(std::move(checked.error()).WithContext("--file"));
  TRY_VOID(ResolvePath("--file", &source, guest_writable));
  auto content = os::ReadNamedFile(source, kMaxInputFile);
  if (!content) return std::unexpected(std::move(content.error()).WithContext("--file"));
  return InputFile{*checked, std::move(*content), access(source.c_str(), X_OK) == 0};
}

// Reading stops at the limit, so its size is unknown.
Error TooLargeOr(Error error) {
  if (error.code != ErrorCode::kInvalid || error.sys_errno != 0) return error;
  return Error{
      ErrorCode::kInvalid,
      fmt::format("the code is larger than {}, and no more is accepted", FormatByteSize(language::kMaxCodeBytes)), 0};
}

Status ReadCode(const RunOptions& options, const Paths& guest_writable, RunSpec* run) {
  if (options.has_code) {
    run->blocks.front().code = options.code;
    return {};
  }
  // One byte beyond the limit of the language layer, so that its sentence is the one that people see.
  const uint64_t limit = language::kMaxCodeBytes + 1;
  if (options.file == "-") {
    auto code = os::ReadFd(STDIN_FILENO, limit);
    if (!code) return std::unexpected(TooLargeOr(std::move(code.error()).WithContext("standard input")));
    run->blocks.front().code = std::move(*code);
    return {};
  }
  struct stat info;
  if (stat(options.file.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is a directory", options.file);
  }
  auto resolved = language::ResolveHostPath(options.file, guest_writable);
  if (!resolved) return std::unexpected(std::move(resolved.error()));
  auto code = os::ReadNamedFile(*resolved, limit);
  if (!code) return std::unexpected(TooLargeOr(std::move(code.error())));
  run->blocks.front().code = std::move(*code);
  run->file = options.file.substr(options.file.rfind('/') + 1);
  return {};
}

Result<UniqueFd> PassedInput(const RunOptions& options) {
  if (options.file == "-") return UniqueFd();
  UniqueFd input(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!input && errno != EBADF) return SysErr(errno, "standard input");
  return input;  // a closed standard input reads as empty
}

}  // namespace

void DeclareRunOptions(CLI::App& command, RunOptions* o) {
  command.add_option("FILE", o->file, "The file to run; - reads the code from standard input");
  command.add_option("ARGS", o->words, "Arguments for the program; those that begin with - follow '--'");
  command.add_option_function<std::string>(
      "-c,--code",
      [o](const std::string& code) {
        o->code = code;
        o->has_code = true;
      },
      "The code itself");
  command.add_option("-l,--lang", o->lang, "Language; else by extension, by shebang, else python");
  DeclarePolicyOptions(command, false, &o->policy);
  DeclarePackageOptions(command, &o->packages);
  command.add_option("--file", o->files, "Copy a file in: SOURCE[:NAME] (repeatable)")
      ->allow_extra_args(false)
      ->check(EmptinessOf)
      ->group(kInsideGroup);
  OptionalText(command, "--out", &o->out, "Copy files that the run made or changed to this directory")
      ->check(EmptinessOf)
      ->group(kInsideGroup);

  const std::string output = "Output";
  auto* json = command.add_flag("--json", o->json, "Print one Result as JSON")->group(output);
  command.add_flag("--events", o->events, "Print events as they happen, one JSON object a line")
      ->excludes(json)
      ->group(output);
  command.add_flag("--summary", o->summary, "Add a line on stderr: how it ended and what confined it")->group(output);
  command.footer(
      "Words behind FILE are arguments for the program; those that begin with '-' must follow '--'.\n"
      "\n"
      "Examples:\n"
      "  cella run -c 'print(6 * 7)'\n"
      "  cella run --file input.csv script.py input.csv\n"
      "  cella run --memory 256m --timeout 10s script.py -- -v\n"
      "  cella run main.rs --file data.txt --out results\n"
      "  echo 'puts 1' | cella run --lang ruby -\n"
      "\n"
      "Exit status: the program's own; 124 timeout, 125 cancelled, 126 refused, 127 missing file or interpreter,\n"
      "137 out of memory, 128+N ended by signal N; 2 wrong command line.");
}

Status CheckCommandLine(const RunOptions& options) {
  if (options.has_code && !options.file.empty()) {
    return Err(ErrorCode::kInvalid, "give either a file or -c CODE, not both (program arguments follow '--')");
  }
  if (!options.has_code && options.file.empty()) {
    return Err(ErrorCode::kInvalid, "nothing to run: give a FILE, -c CODE, or - for standard input");
  }
  return {};
}

Result<ParsedRun> ParseRun(const RunOptions& options) {
  ParsedRun run;
  run.rendering = options.json ? Rendering::kJson : options.events ? Rendering::kEvents : Rendering::kPlain;
  run.summary = options.summary;

  TRY(ParsedPolicy parsed, ParsePolicy(options.policy));
  run.cap_plain_output = parsed.given.Has("limits.output");
  RunSpec& spec = run.run;
  spec.as = RunAs::kProgram;
  spec.blocks.emplace_back();
  run.spec = std::move(parsed.spec);
  spec.blocks.front().language = options.lang;
  spec.args = options.words;
  spec.args.insert(spec.args.end(), options.args.begin(), options.args.end());
  spec.list_files = run.rendering != Rendering::kPlain;
  spec.out_dir = options.out.value_or("");
  if (Confines(run.spec.executor) || run.spec.policy.jail) TRY_VOID(ResolveOut(parsed.guest_writable, &spec.out_dir));
  for (const std::string& text : options.files) {
    TRY(InputFile file, ReadInputFile(text, parsed.guest_writable));
    spec.files.push_back(std::move(file));
  }
  TRY_VOID(ReadCode(options, parsed.guest_writable, &spec));
  TRY(run.standard_input, PassedInput(options));
  if (run.standard_input) spec.stdin_fd = run.standard_input.get();
  return run;
}

}  // namespace cella::cli
