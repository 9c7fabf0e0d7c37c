#include "cli/bench_kernels.h"

#include "engine/engine.h"
#include "session/session.h"

namespace cella::cli {
namespace {

using session::Session;

using namespace std::chrono_literals;

constexpr int kRuns = 100;
constexpr auto kPatience = 30s;
constexpr auto kPoll = 10ms;

double Since(async::TimePoint start) {
  return std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
}

async::Task<Status> RunCode(Session& session, std::string code) {
  RunSpec run;
  run.blocks.push_back({"python", std::move(code)});
  run.list_files = false;
  auto result = co_await session.RunToEnd(std::move(run));
  if (!result) co_return std::unexpected(std::move(result.error()));
  if (result->outcome.status != RunStatus::kOk) co_return Err(ErrorCode::kInternal, "the kernel failed");
  co_return Status{};
}

// With ipykernel of `python` and its packages, in a fresh virtual environment.
session::SessionOptions OptionsFor(const std::string& python) {
  session::SessionOptions options;
  options.guest.policy.python = python;
  options.guest.policy.system_packages = true;
  options.guest.policy.network = Network::kHost;
  return options;
}

async::Task<Status> MeasureOne(async::Loop& loop, engine::Engine& engine, const std::string& python, BenchRow* first,
                               BenchRow* again) {
  const async::TimePoint start = async::Clock::now();
  auto session = co_await Session::Open(loop, *engine.executor, OptionsFor(python));
  if (!session) co_return std::unexpected(std::move(session.error()));
  Status ran = co_await RunCode(**session, "1 + 1");
  if (ran) first->milliseconds.push_back(Since(start));
  for (int run = 0; run < kRuns && ran; ++run) {
    const async::TimePoint sent = async::Clock::now();
    ran = co_await RunCode(**session, "1 + 1");
    if (ran) again->milliseconds.push_back(Since(sent));
  }
  co_await (*session)->Close();
  co_return ran;
}

// As on a server: the session before has made one ready.
async::Task<Status> AwaitReady(const engine::Engine& engine) {
  const async::TimePoint deadline = async::Clock::now() + kPatience;
  while (engine.executor->readiness().parked == 0) {
    if (async::Clock::now() > deadline) co_return Err(ErrorCode::kUnsupported, "no kernel became ready");
    (void)co_await async::SleepUntil(async::Clock::now() + kPoll);
  }
  co_return Status{};
}

// One session more than there are ready ones.
async::Task<Status> MeasureForks(async::Loop& loop, const std::string& python, int kernels, BenchRow* forked) {
  CO_TRY(auto engine, engine::MakeEngine(loop, ExecutorKind::kSubprocess, {.pool = {.parked = 1}}));
  BenchRow unused;
  Status measured = co_await MeasureOne(loop, *engine, python, &unused, &unused);
  for (int kernel = 0; kernel < kernels && measured; ++kernel) {
    measured = co_await AwaitReady(*engine);
    if (!measured) break;
    auto ready = co_await Session::Open(loop, *engine->executor, OptionsFor(python));
    if (!ready) measured = std::unexpected(std::move(ready.error()));
    if (measured) measured = co_await MeasureOne(loop, *engine, python, forked, &unused);
    if (ready) co_await (*ready)->Close();
  }
  co_await engine->executor->Close();
  co_return measured;
}

async::Task<Status> MeasureAll(async::Loop& loop, const std::string& python, int kernels, size_t ahead, BenchRow* first,
                               BenchRow* again) {
  CO_TRY(auto engine, engine::MakeEngine(loop, ExecutorKind::kSubprocess, {.pool = {.parked = ahead}}));
  BenchRow unused;
  Status measured;
  if (ahead > 0) measured = co_await MeasureOne(loop, *engine, python, &unused, &unused);
  for (int kernel = 0; kernel < kernels && measured; ++kernel) {
    if (ahead > 0) measured = co_await AwaitReady(*engine);
    if (measured) measured = co_await MeasureOne(loop, *engine, python, first, again);
  }
  co_await engine->executor->Close();
  co_return measured;
}

}  // namespace

std::vector<BenchRow> MeasureKernels(const std::string& python, int kernels) {
  BenchRow first{"kernel session: new", "ipykernel in a fresh environment, by exec", {}, ""};
  BenchRow forked{"kernel session: new, forked", "the same, from a zygote as on a server", {}, ""};
  BenchRow ready{"kernel session: new, ready", "the same, kept ready as on a server", {}, ""};
  BenchRow again{"kernel session: 1 + 1, live", "ipykernel", {}, ""};
  BenchRow unused;
  async::Loop loop;
  Status measured = loop.Run(MeasureAll(loop, python, kernels, 0, &first, &again));
  if (measured) measured = loop.Run(MeasureForks(loop, python, kernels, &forked));
  if (measured) measured = loop.Run(MeasureAll(loop, python, kernels, 1, &ready, &unused));
  for (BenchRow* row : {&first, &forked, &ready, &again}) {
    if (!measured && row->milliseconds.empty()) row->unavailable = measured.error().message;
  }
  return {std::move(first), std::move(forked), std::move(ready), std::move(again)};
}

}  // namespace cella::cli
