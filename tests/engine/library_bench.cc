// `x = 1` in a live sandbox session: through cella.h, as an application calls it, beside the engine itself. They take
// turns, so that what disturbs the machine disturbs them alike. Run by hand: docs/benchmarks.md.
#include <cella.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "session/session.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kCode = "x = 1";
constexpr int kWarmUp = 20;
constexpr double kBest = 0.1;  // on a busy machine the best tenth says more than the median

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Samples {
  std::vector<double> engine, library;
};

cella::async::Task<cella::Status> RunInEngine(cella::session::Session& session) {
  cella::RunSpec spec;
  spec.blocks = {{"python", std::string(kCode)}};
  auto ran = co_await session.RunToEnd(std::move(spec));
  if (!ran) co_return std::unexpected(std::move(ran.error()));
  if (ran->outcome.status != cella::RunStatus::kOk) co_return cella::Err(cella::ErrorCode::kInternal, "the run failed");
  co_return cella::Status{};
}

cella::Status RunInLibrary(cella_session* session) {
  cella_error* error = nullptr;
  cella_result* result = cella_session_run(session, kCode.data(), kCode.size(), &error);
  if (result == nullptr) {
    const std::string words = cella_error_message(error);
    cella_error_free(error);
    return cella::Err(cella::ErrorCode::kInternal, "{}", words);
  }
  cella_result_free(result);
  return {};
}

cella::async::Task<cella::Status> Measure(cella::async::Loop& loop, cella::CheckpointMode checkpoint,
                                          std::chrono::milliseconds pause, int runs, Samples* samples) {
  auto made = cella::engine::MakeEngine(loop, cella::ExecutorKind::kSandbox);
  if (!made) co_return std::unexpected(std::move(made.error()));
  cella::session::SessionOptions options;
  options.guest.checkpoint = checkpoint;
  auto session = co_await cella::session::Session::Open(loop, *(*made)->executor, std::move(options));
  if (!session) co_return std::unexpected(std::move(session.error()));
  const char* policy = checkpoint == cella::CheckpointMode::kOff ? R"({"checkpoint": "off"})" : "{}";
  cella_session* library = cella_session_open(nullptr, policy, nullptr);
  cella::Status status;
  if (library == nullptr) status = cella::Err(cella::ErrorCode::kInternal, "the library opens no session");
  for (int run = -kWarmUp; run < runs && status; ++run) {
    if (pause > 0ms) (void)co_await cella::async::SleepUntil(cella::async::Clock::now() + pause);
    auto start = Clock::now();
    status = co_await RunInEngine(**session);
    if (run >= 0) samples->engine.push_back(Since(start));
    if (!status) break;
    if (pause > 0ms) std::this_thread::sleep_for(pause);
    start = Clock::now();
    status = RunInLibrary(library);
    if (run >= 0) samples->library.push_back(Since(start));
  }
  cella_session_free(library);
  co_await (*session)->Close();
  co_await (*made)->executor->Close();
  co_return status;
}

double At(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 500;
  if (runs < 1) {
    std::fputs("usage: cella-bench-library [RUNS]\n", stderr);
    return 2;
  }
  std::printf("%-36s %22s %22s %20s\n", "x = 1, live", "engine p10 p50 ms", "library p10 p50 ms", "ratio p10 p50");
  for (auto [name, checkpoint, pause] :
       {std::tuple{"with pauses, checkpoints on", cella::CheckpointMode::kAuto, 5ms},
        std::tuple{"back to back, checkpoints off", cella::CheckpointMode::kOff, 0ms}}) {
    cella::async::Loop loop;
    Samples samples;
    if (auto status = loop.Run(Measure(loop, checkpoint, pause, runs, &samples)); !status) {
      std::fprintf(stderr, "cella-bench-library: %s\n", status.error().message.c_str());
      return 1;
    }
    std::printf("%-36s", name);
    for (const auto& each : {samples.engine, samples.library})
      std::printf(" %11.3f %10.3f", At(each, kBest), At(each, 0.5));
    std::printf(" %9.2fx %8.2fx\n", At(samples.library, kBest) / At(samples.engine, kBest),
                At(samples.library, 0.5) / At(samples.engine, 0.5));
  }
  return 0;
}
