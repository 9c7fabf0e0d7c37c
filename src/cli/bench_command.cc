#include "cli/bench_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/bench_containers.h"
#include "cli/bench_environments.h"
#include "cli/bench_floor.h"
#include "cli/bench_http.h"
#include "cli/bench_jupyter.h"
#include "cli/bench_kernels.h"
#include "cli/bench_programs.h"
#include "cli/bench_report.h"
#include "cli/bench_sessions.h"
#include "os/io.h"
#include "os/process.h"

namespace cella::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Of ipykernel: each takes most of a second.
constexpr int kKernels = 8;
// Rounds of containers, each of which takes seconds.
constexpr int kContainers = 20;

struct Contender {
  BenchRow row;
  std::vector<std::string> argv;  // argv[0] is the program's path
};

// Runs the command with nothing on its standard streams; its exit status.
Result<int> RunOnce(const std::vector<std::string>& argv, int null) {
  TRY(os::Process process, StartOnHost(argv, {{null, 0}, {null, 1}, {null, 2}}));
  TRY(int status, process.Wait());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> BwrapCommand(const std::string& bwrap, const language::Python& python) {
  std::vector<std::string> argv = {bwrap, "--unshare-all", "--ro-bind", "/usr", "/usr"};
  for (const char* directory : {"/bin", "/lib", "/lib64"}) {
    argv.insert(argv.end(), {"--ro-bind-try", directory, directory});
  }
  for (const std::string& directory : python.visible) argv.insert(argv.end(), {"--ro-bind", directory, directory});
  argv.insert(argv.end(), {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"});
  argv.insert(argv.end(), {python.executable, "-c", "print(1)"});
  return argv;
}

Result<std::vector<Contender>> Contenders(const BenchOptions& options, int null) {
  TRY(language::Python python, BenchPython(options.python));
  TRY(std::string here, os::ProgramDirectory());

  std::vector<Contender> contenders;
  contenders.push_back(
      {{"bare python3 -c", "no isolation, Python " + python.version, {}, ""}, {python.executable, "-c", "print(1)"}});
  contenders.push_back({{"cella run", "the whole jail", {}, ""},
                        {here + "/cella", "run", "--python", python.executable, "-c", "print(1)"}});
  Contender bwrap{{"bwrap --unshare-all", "no filter, no Landlock, no limits", {}, ""}, {}};
  std::string program = FindHostProgram("bwrap");
  if (program.empty()) {
    bwrap.row.unavailable = "not installed";
  } else {
    bwrap.argv = BwrapCommand(program, python);
  }
  contenders.push_back(std::move(bwrap));
  Contender docker{{"docker run", options.image, {}, ""}, {}};
  program = FindHostProgram("docker");
  if (program.empty()) {
    docker.row.unavailable = "not installed";
  } else {
    auto present = RunOnce({program, "image", "inspect", options.image}, null);
    docker.argv = {program, "run", "--rm", "--network", "none", options.image, "python3", "-c", "print(1)"};
    if (!present || *present != 0) {
      docker.row.unavailable = "no engine, or no image " + options.image + " (docker pull it, or --image)";
    }
  }
  contenders.push_back(std::move(docker));
  return contenders;
}

Status Measure(std::vector<Contender>& contenders, int runs, int null, bool progress) {
  // One unmeasured round: caches, and the proof that each command works.
  for (Contender& contender : contenders) {
    if (!contender.row.unavailable.empty()) continue;
    TRY(int status, RunOnce(contender.argv, null));
    if (status != 0) contender.row.unavailable = fmt::format("failed with status {}", status);
  }
  if (!contenders.front().row.unavailable.empty()) return Err(ErrorCode::kInternal, "the bare interpreter fails");
  for (int run = 0; run < runs; ++run) {
    if (progress) std::fprintf(stderr, "\rrun %d of %d", run + 1, runs);
    // Interleaved: a busy moment of the machine hits all alike.
    for (Contender& contender : contenders) {
      if (!contender.row.unavailable.empty()) continue;
      auto start = Clock::now();
      TRY(int status, RunOnce(contender.argv, null));
      std::chrono::duration<double, std::milli> took = Clock::now() - start;
      if (status != 0) return Err(ErrorCode::kInternal, "'{}' failed with status {}", contender.row.name, status);
      contender.row.milliseconds.push_back(took.count());
    }
  }
  if (progress) std::fputs("\r                    \r", stderr);
  return {};
}

void Append(SessionBench&& more, SessionBench* all) {
  std::ranges::move(more.rows, std::back_inserter(all->rows));
  std::ranges::move(more.figures, std::back_inserter(all->figures));
}

Status Bench(const BenchOptions& options) {
  const bool progress = isatty(STDERR_FILENO) == 1;
  std::vector<BenchRow> rows;
  std::string text;
  SessionBench sessions;
  auto wanted = [&](std::string_view part) { return options.only.empty() || options.only == part; };
  const SessionBenchOptions session_options{options.python, options.runs, options.live, progress};
  if (wanted("sessions")) {
    // Before and after: a machine is not as fast now as it was a minute ago.
    TRY(sessions, MeasureFloor(session_options));
    TRY(SessionBench ours, MeasureSessions(session_options));
    TRY(SessionBench again, MeasureFloor(session_options));
    AddToFloor(again, &sessions);
    Append(std::move(ours), &sessions);
    const int kernels = std::min(options.runs, kKernels);
    for (BenchRow& row : MeasureJupyter(options.python, kernels)) sessions.rows.push_back(std::move(row));
    for (BenchRow& row : MeasureKernels(options.python, kernels)) sessions.rows.push_back(std::move(row));
  }
  if (wanted("http")) {
    TRY(SessionBench http, MeasureHttp(session_options));
    Append(std::move(http), &sessions);
  }
  // Not without being asked for: it needs the package index, and minutes.
  if (options.only == "environments") {
    TRY(SessionBench environments, MeasureEnvironments(session_options));
    Append(std::move(environments), &sessions);
  }
  // Nor this: it stops containers as AutoGen does, which takes ten seconds each.
  if (options.only == "containers") {
    const int rounds = std::min(options.runs, kContainers);
    for (BenchRow& row : MeasureContainers(options.image, rounds, progress)) sessions.rows.push_back(std::move(row));
  }
  if (wanted("run")) {
    UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return SysErr(errno, "open '/dev/null'");
    TRY(std::vector<Contender> contenders, Contenders(options, null.get()));
    TRY_VOID(Measure(contenders, options.runs, null.get(), progress));
    for (Contender& contender : contenders) rows.push_back(std::move(contender.row));
    text = RenderComparison(rows) + "\n";
  }
  if (!sessions.rows.empty()) text += RenderTable(sessions.rows, sessions.figures);
  rows.insert(rows.end(), sessions.rows.begin(), sessions.rows.end());
  if (!options.svg.empty()) {
    UniqueFd file(open(options.svg.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return SysErr(errno, "open '{}'", options.svg);
    TRY_VOID(os::WriteAll(file.get(), RenderSvg(rows)));
  }
  return os::WriteAll(STDOUT_FILENO, options.json ? RenderJson(rows, sessions.figures) : text);
}

}  // namespace

void DeclareBenchOptions(CLI::App& command, BenchOptions* options) {
  command.add_option("--runs", options->runs, "How often each command is measured (60)")->check(CLI::Range(1, 100000));
  command.add_option("--python", options->python, "Interpreter: a version (3.12) or a path");
  command.add_option("--image", options->image, "Docker image to compare with (python:3-slim)");
  command.add_flag("--json", options->json, "Print JSON");
  command.add_option("--svg", options->svg, "Also write a bar chart to this file");
  command.add_option("--only", options->only, "Measure only one part: run, sessions, http, environments or containers")
      ->check(CLI::IsMember({"run", "sessions", "http", "environments", "containers"}));
  command.add_option("--live", options->live, "Sessions that live at once when memory is measured (100)")
      ->check(CLI::Range(1, 100000));
  command.footer(
      "One-shot runs of print(1) beside the alternatives, interleaved; then sessions, in the engine and over HTTP.\n"
      "Rows that begin with 'floor' are what this machine needs for the same interpreter without any isolation, and\n"
      "'floors' says how many times that a session takes.\n"
      "Compare ratios, not milliseconds: machines differ.");
}

int BenchCommand(const BenchOptions& options) {
  if (auto status = Bench(options); !status) {
    std::fprintf(stderr, "cella: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace cella::cli
