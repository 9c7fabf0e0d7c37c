#include "cli/bench_containers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/bench_programs.h"
#include "engine/engine.h"
#include "os/io.h"
#include "os/process.h"
#include "session/session.h"

namespace cella::cli {
namespace {

using session::Session;

constexpr int kRunsInSession = 20;
// AutoGen's executor stops a shell as process 1, which takes the engine its ten seconds.
constexpr int kStops = 2;

double Since(async::TimePoint start) {
  return std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
}

async::Task<Status> RunCode(Session& session) {
  RunSpec run;
  run.blocks.push_back({"python", "print(1)"});
  run.list_files = false;
  auto result = co_await session.RunToEnd(std::move(run));
  if (!result) co_return std::unexpected(std::move(result.error()));
  if (result->outcome.status != RunStatus::kOk) co_return Err(ErrorCode::kInternal, "the run failed");
  co_return Status{};
}

struct SessionRows {
  BenchRow whole, live, close;
};

async::Task<Status> MeasureSession(async::Loop& loop, engine::Engine& engine, const std::string& image,
                                   SessionRows* rows) {
  session::SessionOptions options;
  options.guest.policy.container.image = image;
  options.guest.policy.container.pull = false;
  const async::TimePoint start = async::Clock::now();
  auto opened = co_await Session::Open(loop, *engine.executor, std::move(options));
  CO_TRY(auto session, std::move(opened));
  Status ran = co_await RunCode(*session);
  const double first = Since(start);
  for (int run = 0; run < kRunsInSession && ran; ++run) {
    const async::TimePoint sent = async::Clock::now();
    ran = co_await RunCode(*session);
    if (ran) rows->live.milliseconds.push_back(Since(sent));
  }
  const async::TimePoint ending = async::Clock::now();
  co_await session->Close();
  const double close = Since(ending);
  if (ran) rows->close.milliseconds.push_back(close);
  if (ran) rows->whole.milliseconds.push_back(first + close);
  co_return ran;
}

Status MeasureSessionOnce(const std::string& image, SessionRows* rows) {
  async::Loop loop;
  auto measure = [&]() -> async::Task<Status> {
    CO_TRY(auto engine, engine::MakeEngine(loop, ExecutorKind::kContainer, {}));
    Status measured = co_await MeasureSession(loop, *engine, image, rows);
    co_await engine->executor->Close();
    co_return measured;
  };
  return loop.Run(measure());
}

// A command with nothing on its standard streams; how long it took.
Result<double> TimeCommand(const std::vector<std::string>& argv, int null) {
  const async::TimePoint start = async::Clock::now();
  TRY(os::Process process, StartOnHost(argv, {{null, 0}, {null, 1}, {null, 2}}));
  TRY(int status, process.Wait());
  if (status != 0) return Err(ErrorCode::kInternal, "'{}' fails", fmt::join(argv, " "));
  return Since(start);
}

class Docker {
 public:
  Docker(std::string program, std::string image, int null)
      : program_(std::move(program)),
        image_(std::move(image)),
        name_(fmt::format("cella-bench-{}", getpid())),
        null_(null) {}

  Result<double> Run() {
    return Time({"run", "--rm", "--pull", "never", "--network", "none", image_, "python3", "-c", "print(1)"});
  }
  Status Start() {
    TRY(double took,
        Time({"run", "-d", "-i", "--rm", "--pull", "never", "--network", "none", "--name", name_, image_, "sh"}));
    (void)took;
    return {};
  }
  Result<double> Exec() { return Time({"exec", name_, "python3", "-c", "print(1)"}); }
  Result<double> Stop() { return Time({"stop", name_}); }

 private:
  Result<double> Time(std::vector<std::string> words) {
    words.insert(words.begin(), program_);
    return TimeCommand(words, null_);
  }

  std::string program_, image_, name_;
  int null_;
};

Status Add(Result<double> sample, BenchRow* row) {
  if (!sample) return std::unexpected(std::move(sample.error()));
  row->milliseconds.push_back(*sample);
  return {};
}

}  // namespace

std::vector<BenchRow> MeasureContainers(const std::string& image, int rounds, bool progress) {
  BenchRow run{"docker run --rm", image, {}, ""};
  BenchRow ours{"cella run, container", image, {}, ""};
  SessionRows rows{{"container session: open, run, close", image, {}, ""},
                   {"container session: print(1), live", "the runner's Python", {}, ""},
                   {"container session: close", "until the container is removed", {}, ""}};
  BenchRow exec{"docker exec", "python3 in a running container", {}, ""};
  BenchRow stop{"docker stop", "of sh, as AutoGen's executor has it", {}, ""};
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::string program = FindHostProgram("docker");
  auto here = os::ProgramDirectory();
  Docker docker(program, image, null.get());
  Status works = here ? Status{} : std::unexpected(here.error());
  Status peer = program.empty() ? Err(ErrorCode::kNotFound, "not installed") : Status{};
  const std::vector<std::string> command = {(here ? *here : "") + "/cella",
                                            "run",
                                            "--executor",
                                            "container",
                                            "--image",
                                            image,
                                            "--pull",
                                            "never",
                                            "-c",
                                            "print(1)"};
  // One unmeasured round: caches, and the proof that each works.
  BenchRow unused;
  if (works) works = Add(TimeCommand(command, null.get()), &unused);
  if (peer) peer = Add(docker.Run(), &unused);
  for (int round = 0; round < rounds && (works || peer); ++round) {
    if (progress) std::fprintf(stderr, "\rcontainers %d of %d", round + 1, rounds);
    if (peer) peer = Add(docker.Run(), &run);
    if (works) works = Add(TimeCommand(command, null.get()), &ours);
    if (works) works = MeasureSessionOnce(image, &rows);
  }
  for (int round = 0; round < std::min(rounds, kStops) && peer; ++round) {
    peer = docker.Start();
    if (!peer) break;
    for (int n = 0; n < kRunsInSession && peer; ++n) peer = Add(docker.Exec(), &exec);
    Status stopped = Add(docker.Stop(), &stop);
    if (peer) peer = std::move(stopped);
  }
  if (progress) std::fputs("\r                    \r", stderr);
  for (BenchRow* row : {&ours, &rows.whole, &rows.live, &rows.close}) {
    if (!works && row->milliseconds.empty()) row->unavailable = works.error().message;
  }
  for (BenchRow* row : {&run, &exec, &stop}) {
    if (!peer && row->milliseconds.empty()) row->unavailable = peer.error().message;
  }
  return {std::move(run),  std::move(ours),       std::move(rows.whole), std::move(rows.live),
          std::move(exec), std::move(rows.close), std::move(stop)};
}

}  // namespace cella::cli
