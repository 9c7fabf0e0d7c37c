#include "cli/bench_sessions.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "async/task_group.h"
#include "cli/bench_directory.h"
#include "cli/bench_floor.h"
#include "engine/engine.h"
#include "session/session.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;
using session::Session;

double Since(async::TimePoint start) {
  return std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
}

// One way of having sessions ready, with an engine of its own so that the ways do not help each other.
struct Tier {
  BenchRow row;
  executor::PoolLimits pool;
  std::unique_ptr<engine::Engine> engine;
  std::string workdir = {};
};

class SessionMeter {
 public:
  SessionMeter(async::Loop& loop, const SessionBenchOptions& options, std::vector<std::string> preload)
      : loop_(loop), options_(options), preload_(std::move(preload)) {
    label_ = preload_.empty() ? "" : ", numpy + pandas";
  }

  // False: the interpreter lacks a module of the preload list.
  async::Task<Result<bool>> Run(SessionBench* bench) {
    std::vector<Tier> tiers;
    for (auto [name, note, pool] : {std::tuple{"new session: on demand", "jail and fork", executor::PoolLimits{0, 0}},
                                    std::tuple{"new session: pooled shell", "fork", executor::PoolLimits{4, 0}},
                                    std::tuple{"new session: parked", "neither", executor::PoolLimits{0, 4}}}) {
      CO_TRY(auto engine, engine::MakeEngine(loop_, ExecutorKind::kSandbox, {.pool = pool}));
      tiers.push_back({{name + label_, note, {}, "", kFloorOfNew + label_}, pool, std::move(engine)});
    }
    CO_TRY(BenchDirectory workdir, BenchDirectory::Make());
    CO_TRY(auto engine, engine::MakeEngine(loop_, ExecutorKind::kSandbox));
    tiers.push_back({{"new session: with a workdir" + label_, "jail, mount and fork", {}, "", kFloorOfNew + label_},
                     {},
                     std::move(engine),
                     workdir.path()});
    auto measured = co_await MeasureAll(tiers, bench);
    for (Tier& tier : tiers) co_await tier.engine->executor->Close();
    co_return measured;
  }

 private:
  async::Task<Result<bool>> MeasureAll(std::vector<Tier>& tiers, SessionBench* bench) {
    BenchRow close{"tear-down" + label_, "until the last process is gone", {}, ""};
    for (Tier& tier : tiers) {
      auto warm = co_await Measure(tier, nullptr);  // unmeasured: the zygote starts
      if (warm) continue;
      if (!preload_.empty() && warm.error().message.find("ModuleNotFoundError") != std::string::npos) co_return false;
      co_return std::unexpected(std::move(warm.error()));
    }
    for (int run = 0; run < options_.runs; ++run) {
      Progress("sessions", run, options_.runs);
      for (Tier& tier : tiers) {
        // Time for the pool to be filled again; the same pause for all.
        (void)co_await async::SleepUntil(async::Clock::now() + 20ms);
        auto sample = co_await Measure(tier, &close);
        if (!sample) co_return std::unexpected(std::move(sample.error()));
        tier.row.milliseconds.push_back(*sample);
      }
    }
    engine::Engine& engine = *tiers.front().engine;
    auto live = co_await MeasureLive(engine, bench);
    if (!live) co_return std::unexpected(std::move(live.error()));
    auto figures = co_await MeasureMany(engine, bench);
    if (!figures) co_return std::unexpected(std::move(figures.error()));
    for (auto checkpoint : {CheckpointMode::kAuto, CheckpointMode::kOff}) {
      auto memory = co_await MeasureMemory(engine, checkpoint, bench);
      if (!memory) co_return std::unexpected(std::move(memory.error()));
    }
    for (Tier& tier : tiers) bench->rows.push_back(std::move(tier.row));
    bench->rows.push_back(std::move(close));
    co_return true;
  }

  session::SessionOptions Options(CheckpointMode checkpoint = CheckpointMode::kAuto) const {
    session::SessionOptions options;
    options.guest.policy.python = options_.python;
    options.guest.preload = preload_;
    options.guest.checkpoint = checkpoint;
    return options;
  }

  void Progress(const char* what, int done, int all) const {
    if (options_.progress) std::fprintf(stderr, "\r%s%s: %d of %d      ", what, label_.c_str(), done + 1, all);
  }

  static async::Task<Status> RunCode(Session& session, const char* code) {
    RunSpec input;
    input.blocks = {{"python", code}};
    auto result = co_await session.RunToEnd(std::move(input));
    if (!result) co_return std::unexpected(std::move(result.error()));
    if (result->outcome.status != RunStatus::kOk) {
      co_return Err(ErrorCode::kInternal, "'{}' failed: {}", code,
                    result->outcome.error ? result->outcome.error->message : "no reason");
    }
    co_return Status{};
  }

  // From nothing to the first result.
  async::Task<Result<double>> Measure(Tier& tier, BenchRow* close) {
    auto start = async::Clock::now();
    session::SessionOptions options = Options();
    options.guest.policy.workdir = tier.workdir;
    auto session = co_await Session::Open(loop_, *tier.engine->executor, std::move(options));
    if (!session) co_return std::unexpected(std::move(session.error()));
    auto ran = co_await RunCode(**session, "1 + 1");
    double took = Since(start);
    start = async::Clock::now();
    co_await (*session)->Close();
    if (close != nullptr) close->milliseconds.push_back(Since(start));
    if (!ran) co_return std::unexpected(std::move(ran.error()));
    co_return took;
  }

  async::Task<Status> MeasureLive(engine::Engine& engine, SessionBench* bench) {
    struct Way {
      BenchRow row;
      CheckpointMode checkpoint;
      std::chrono::nanoseconds pause;
    };
    Way ways[] = {
        {{"x = 1, live" + label_, "with pauses, checkpoints on", {}, "", kFloorOfLive + label_},
         CheckpointMode::kAuto,
         5ms},
        {{"x = 1, live, back to back" + label_, "checkpoints on", {}, ""}, CheckpointMode::kAuto, 0ms},
        {{"x = 1, live, back to back" + label_, "checkpoints off", {}, "", kFloorOfBackToBack + label_},
         CheckpointMode::kOff,
         0ms},
    };
    for (Way& way : ways) {
      auto session = co_await Session::Open(loop_, *engine.executor, Options(way.checkpoint));
      if (!session) co_return std::unexpected(std::move(session.error()));
      Status ran;
      for (int run = -5; run < options_.runs * 3 && ran; ++run) {
        if (way.pause > 0ms) (void)co_await async::SleepUntil(async::Clock::now() + way.pause);
        auto start = async::Clock::now();
        ran = co_await RunCode(**session, "x = 1");
        if (run >= 0) way.row.milliseconds.push_back(Since(start));
      }
      co_await (*session)->Close();
      if (!ran) co_return ran;
      bench->rows.push_back(std::move(way.row));
    }
    co_return Status{};
  }

  async::Task<Status> MeasureMany(engine::Engine& engine, SessionBench* bench) {
    // Created, run and destroyed, by twice as many clients as there are processors.
    const int clients = 2 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    constexpr auto kLong = 2s;
    int made = 0;
    Status failure;
    BenchRow row{fmt::format("new session, {} clients{}", clients, label_), "on demand, all processors busy", {}, ""};
    const auto begin = async::Clock::now();
    auto client = [&]() -> async::Task<void> {
      while (failure && async::Clock::now() - begin < kLong) {
        auto start = async::Clock::now();
        auto session = co_await Session::Open(loop_, *engine.executor, Options());
        if (!session) {
          failure = std::unexpected(std::move(session.error()));
          co_return;
        }
        auto ran = co_await RunCode(**session, "1 + 1");
        row.milliseconds.push_back(Since(start));
        co_await (*session)->Close();
        if (!ran) failure = ran;
        ++made;
      }
    };
    async::TaskGroup group(loop_);
    for (int i = 0; i < clients; ++i) group.Add(client());
    co_await group.Join();
    if (!failure) co_return failure;
    const double seconds = Since(begin) / 1000;
    bench->rows.push_back(std::move(row));
    bench->figures.push_back({"created, run and destroyed" + label_, made / seconds, "sessions/s"});
    co_return failure;
  }

  // With checkpoints, each session is two interpreters that share most of their pages.
  async::Task<Status> MeasureMemory(engine::Engine& engine, CheckpointMode checkpoint, SessionBench* bench) {
    Status failure;
    std::vector<std::unique_ptr<Session>> sessions;
    uint64_t charged = 0;
    bool counted = true;
    for (int i = 0; i < options_.live && failure; ++i) {
      Progress("live sessions", i, options_.live);
      auto session = co_await Session::Open(loop_, *engine.executor, Options(checkpoint));
      if (!session) {
        failure = std::unexpected(std::move(session.error()));
        break;
      }
      failure = co_await RunCode(**session, "1 + 1");
      sessions.push_back(std::move(*session));
    }
    (void)co_await async::SleepUntil(async::Clock::now() + 100ms);
    for (auto& session : sessions) {
      auto used = session->MemoryUsed();
      counted = counted && used;
      charged += used.value_or(0);
    }
    if (counted && !sessions.empty()) {
      bench->figures.push_back({fmt::format("{} live, checkpoints {}, charged each{}", sessions.size(),
                                            checkpoint == CheckpointMode::kOff ? "off" : "on", label_),
                                static_cast<double>(charged) / static_cast<double>(sessions.size()) / 1e6, "MB"});
    }
    for (auto& session : sessions) co_await session->Close();
    co_return failure;
  }

  async::Loop& loop_;
  const SessionBenchOptions& options_;
  std::vector<std::string> preload_;
  std::string label_;
};

}  // namespace

Result<SessionBench> MeasureSessions(const SessionBenchOptions& options) {
  async::Loop loop;
  SessionBench bench;
  for (const std::vector<std::string>& preload : {std::vector<std::string>{}, {"numpy", "pandas"}}) {
    SessionMeter meter(loop, options, preload);
    TRY(bool there, loop.Run(meter.Run(&bench)));
    if (!there) bench.rows.push_back({"new session, numpy + pandas", "", {}, "not installed for this interpreter"});
  }
  if (options.progress) std::fputs("\r                                                  \r", stderr);
  return bench;
}

}  // namespace cella::cli
