#include "cli/bench_environments.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/bench_directory.h"
#include "cli/bench_programs.h"
#include "engine/engine.h"
#include "environment/store.h"
#include "os/io.h"
#include "os/process.h"
#include "session/session.h"

namespace cella::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int kInstalls = 3;  // of pip: each takes some ten seconds
constexpr int kRuns = 30;
constexpr const char* kName = "bench";
constexpr const char* kDefaultSession = "session: new";
constexpr const char* kPlainRun = "cella run";
constexpr const char* kPip = "python -m venv, pip install numpy pandas";

double Since(async::TimePoint start) {
  return std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
}

class EnvironmentMeter {
 public:
  EnvironmentMeter(const SessionBenchOptions& options, std::string python, std::string cella, std::string directory)
      : options_(options), python_(std::move(python)), cella_(std::move(cella)), directory_(std::move(directory)) {}

  Result<SessionBench> Run() {
    null_ = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null_) return SysErr(errno, "open '/dev/null'");
    TRY_VOID(MeasureInstalls());
    TRY_VOID(MeasureRuns());
    async::Loop loop;
    TRY_VOID(loop.Run(MeasureSessions(loop)));
    SessionBench bench;
    for (BenchRow* row : {&pip_, &ours_, &plain_run_, &with_run_, &plain_, &with_})
      bench.rows.push_back(std::move(*row));
    return bench;
  }

 private:
  std::string StateDir() const { return directory_ + "/state"; }

  // The time of a command on the host, which must succeed.
  Result<double> Time(Words argv) {
    const async::TimePoint start = async::Clock::now();
    TRY(os::Process process, StartOnHost(argv, {{null_.get(), 0}, {null_.get(), 1}, {null_.get(), 2}}));
    TRY(const int status, process.Wait());
    const double took = Since(start);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return took;
    return Err(ErrorCode::kInternal, "'{}' failed with status {}", fmt::join(argv, " "), status);
  }

  Words Cella(const Words& words) const {
    Words argv = {"/usr/bin/env", "CELLA_STATE_DIR=" + StateDir(), cella_};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }

  Result<double> Create() {
    return Time(Cella({"env", "create", kName, "--python", python_, "--with", "numpy", "--with", "pandas"}));
  }

  Status MeasureInstalls() {
    TRY([[maybe_unused]] const double cold, Create());
    for (int round = 0; round <= kInstalls; ++round) {
      Progress("installation", round, kInstalls);
      const std::string venv = fmt::format("{}/venv{}", directory_, round);
      TRY(const double made, Time({python_, "-m", "venv", venv}));
      TRY(const double installed, Time({venv + "/bin/python", "-m", "pip", "install", "numpy", "pandas"}));
      TRY([[maybe_unused]] const double removed, Time(Cella({"env", "rm", kName})));
      TRY(const double ours, Create());
      if (round == 0) continue;  // it filled pip's cache
      pip_.milliseconds.push_back(made + installed);
      ours_.milliseconds.push_back(ours);
    }
    return {};
  }

  Status MeasureRuns() {
    const Words with = {"run", "--python", python_, "--with", "numpy", "--with", "pandas", "-c", "print(1)"};
    const Words plain = {"run", "--python", python_, "-c", "print(1)"};
    for (int round = 0; round <= std::min(kRuns, options_.runs); ++round) {
      Progress("run", round, std::min(kRuns, options_.runs));
      TRY(const double without, Time(Cella(plain)));
      TRY(const double took, Time(Cella(with)));
      if (round == 0) continue;
      plain_run_.milliseconds.push_back(without);
      with_run_.milliseconds.push_back(took);
    }
    return {};
  }

  static async::Task<Result<double>> TimeSession(async::Loop& loop, run::Executor& executor, run::GuestSpec spec) {
    session::SessionOptions options;
    options.guest = std::move(spec);
    const async::TimePoint start = async::Clock::now();
    auto session = co_await session::Session::Open(loop, executor, std::move(options));
    if (!session) co_return std::unexpected(std::move(session.error()));
    RunSpec run;
    run.blocks.push_back({"python", "1 + 1"});
    run.list_files = false;
    auto result = co_await (*session)->RunToEnd(std::move(run));
    const double took = Since(start);
    co_await (*session)->Close();
    if (!result) co_return std::unexpected(std::move(result.error()));
    if (result->outcome.status != RunStatus::kOk) co_return Err(ErrorCode::kInternal, "the session failed");
    co_return took;
  }

  async::Task<Status> MeasureSessions(async::Loop& loop) {
    CO_TRY(const environment::Store store, environment::Store::Open(StateDir()));
    CO_TRY(const environment::NamedEnvironment named, store.FindName(kName));
    const auto ready = store.Find(named.key);
    if (!ready) co_return Err(ErrorCode::kInternal, "the environment is gone");
    engine::EngineOptions engine_options;
    engine_options.opened.readable = store.ready();
    CO_TRY(auto engine, engine::MakeEngine(loop, ExecutorKind::kSandbox, std::move(engine_options)));
    run::GuestSpec plain, with;
    plain.policy.python = python_;
    with.policy.venv = ready->venv;
    with.preload = {"numpy", "pandas"};
    Status measured;
    for (int round = 0; round <= std::min(kRuns, options_.runs) && measured; ++round) {
      Progress("session", round, std::min(kRuns, options_.runs));
      for (auto [spec, row] : {std::pair{&plain, &plain_}, {&with, &with_}}) {
        auto took = co_await TimeSession(loop, *engine->executor, *spec);
        if (!took) measured = std::unexpected(std::move(took.error()));
        if (took && round > 0) row->milliseconds.push_back(*took);
        if (!measured) break;
      }
    }
    co_await engine->executor->Close();
    co_return measured;
  }

  void Progress(const char* what, int round, int of) const {
    if (options_.progress)
      std::fprintf(stderr, "\r\x1b[K%s %d of %d%s", what, round, of, round == of ? "\r\x1b[K" : "");
  }

  const SessionBenchOptions& options_;
  const std::string python_, cella_, directory_;
  UniqueFd null_;
  BenchRow pip_{kPip, "from pip's cache", {}, ""};
  BenchRow ours_{"cella env create, numpy + pandas", "from cached wheels", {}, "", kPip};
  BenchRow plain_run_{kPlainRun, "print(1)", {}, ""};
  BenchRow with_run_{"cella run --with numpy --with pandas", "print(1), environment cached", {}, "", kPlainRun};
  BenchRow plain_{kDefaultSession, "open, 1 + 1", {}, ""};
  BenchRow with_{"session: new, numpy + pandas", "environment, preloaded", {}, "", kDefaultSession};
};

}  // namespace

Result<SessionBench> MeasureEnvironments(const SessionBenchOptions& options) {
  TRY(language::Python python, BenchPython(options.python));
  TRY(const std::string here, os::ProgramDirectory());
  TRY(BenchDirectory directory, BenchDirectory::Make());
  EnvironmentMeter meter(options, python.executable, here + "/cella", directory.path());
  return meter.Run();
}

}  // namespace cella::cli
