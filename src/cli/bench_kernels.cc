#include "cli/bench_kernels.h"

#include "engine/engine.h"
#include "session/session.h"

namespace cella::cli {
namespace {

using session::Session;

constexpr int kRuns = 100;

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

async::Task<Status> Measure(async::Loop& loop, engine::Engine& engine, const std::string& python, BenchRow* first,
                            BenchRow* again) {
  session::SessionOptions options;
  options.guest.policy.python = python;
  options.guest.policy.network = Network::kHost;
  const async::TimePoint start = async::Clock::now();
  auto session = co_await Session::Open(loop, *engine.executor, std::move(options));
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

async::Task<Status> MeasureAll(async::Loop& loop, const std::string& python, int kernels, BenchRow* first,
                               BenchRow* again) {
  CO_TRY(auto engine, engine::MakeEngine(loop, ExecutorKind::kSubprocess));
  Status measured;
  for (int kernel = 0; kernel < kernels && measured; ++kernel) {
    measured = co_await Measure(loop, *engine, python, first, again);
  }
  co_await engine->executor->Close();
  co_return measured;
}

}  // namespace

std::vector<BenchRow> MeasureKernels(const std::string& python, int kernels) {
  BenchRow first{"kernel session: new", "ipykernel, started by exec", {}, ""};
  BenchRow again{"kernel session: 1 + 1, live", "ipykernel", {}, ""};
  async::Loop loop;
  Status measured = loop.Run(MeasureAll(loop, python, kernels, &first, &again));
  if (!measured && first.milliseconds.empty()) first.unavailable = again.unavailable = measured.error().message;
  return {std::move(first), std::move(again)};
}

}  // namespace cella::cli
