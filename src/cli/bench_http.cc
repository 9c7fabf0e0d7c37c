#include "cli/bench_http.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "async/task_group.h"
#include "cli/bench_directory.h"
#include "cli/bench_hostile.h"
#include "cli/bench_programs.h"
#include "http/client.h"
#include "os/io.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr int kClients = 16;
constexpr auto kPause = 5ms;
constexpr auto kLong = 3s;
constexpr auto kStartPatience = 10s;

double Since(async::TimePoint start) {
  return std::chrono::duration<double, std::milli>(async::Clock::now() - start).count();
}

class Meter {
 public:
  Meter(async::Loop& loop, std::string address, std::string python, const SessionBenchOptions& options)
      : loop_(loop), address_(std::move(address)), python_(std::move(python)), options_(options) {}

  async::Task<Status> Run(SessionBench* bench) {
    auto up = co_await AwaitServer();
    if (!up) co_return up;
    auto floor = co_await MeasureExchange(bench);
    if (!floor) co_return floor;
    for (auto [name, note, checkpoint, pause] :
         {std::tuple{"HTTP: x = 1, live", "with pauses, checkpoints on", "auto", kPause},
          std::tuple{"HTTP: x = 1, live, back to back", "checkpoints off", "off", 0ms}}) {
      BenchRow row{name, note, {}, ""};
      auto measured = co_await MeasureLive(checkpoint, pause, &row);
      if (!measured) co_return measured;
      bench->rows.push_back(std::move(row));
    }
    auto alone = co_await MeasureAlone(bench);
    if (!alone) co_return alone;
    auto many = co_await MeasureMany(bench);
    if (!many) co_return many;
    auto hostile = co_await MeasureHostile(loop_, address_, python_);
    if (!hostile) co_return std::unexpected(std::move(hostile.error()));
    std::ranges::move(*hostile, std::back_inserter(bench->figures));
    co_return Status{};
  }

 private:
  http::Client Connect() const {
    auto url = http::ParseUrl(address_);
    return {loop_, std::move(*url), {}};
  }

  static async::Task<Result<Json>> Ask(http::Client& client, const char* method, std::string target, Json body) {
    http::ClientRequest request{method, std::move(target), {}, body.is_null() ? "" : body.dump()};
    request.headers.emplace_back("Content-Type", "application/json");
    auto response = co_await client.Fetch(request);
    if (!response) co_return std::unexpected(std::move(response.error()));
    if (response->status >= 300) co_return Err(ErrorCode::kInternal, "{}", response->body);
    co_return response->body.empty() ? Json::object() : Json::parse(response->body, nullptr, false);
  }

  async::Task<Status> AwaitServer() const {
    const async::TimePoint deadline = async::Clock::now() + kStartPatience;
    for (;;) {
      http::Client client = Connect();
      auto health = co_await Ask(client, "GET", "/health", nullptr);
      if (health) co_return Status{};
      if (async::Clock::now() > deadline) co_return std::unexpected(std::move(health.error()));
      (void)co_await async::SleepUntil(async::Clock::now() + 5ms);
    }
  }

  async::Task<Result<std::string>> Open(http::Client& client, const char* checkpoint) const {
    Json policy = {{"python", python_}, {"checkpoint", checkpoint}};
    auto session = co_await Ask(client, "POST", "/v1/sessions", std::move(policy));
    if (!session) co_return std::unexpected(std::move(session.error()));
    co_return "/v1/sessions/" + session->value("id", "");
  }

  static async::Task<Status> RunCode(http::Client& client, const std::string& session, const char* code) {
    auto result = co_await Ask(client, "POST", session + "/runs", {{"code", code}});
    if (!result) co_return std::unexpected(std::move(result.error()));
    if (result->value("status", "") != "ok") co_return Err(ErrorCode::kInternal, "'{}': {}", code, result->dump());
    co_return Status{};
  }

  static async::Task<Status> Delete(http::Client& client, const std::string& session) {
    auto deleted = co_await Ask(client, "DELETE", session, nullptr);
    if (!deleted) co_return std::unexpected(std::move(deleted.error()));
    co_return Status{};
  }

  // What HTTP costs before anything runs.
  async::Task<Status> MeasureExchange(SessionBench* bench) const {
    BenchRow row{"floor: HTTP, GET /health", "with pauses, no session", {}, ""};
    http::Client client = Connect();
    for (int run = -5; run < options_.runs * 3; ++run) {
      (void)co_await async::SleepUntil(async::Clock::now() + kPause);
      auto start = async::Clock::now();
      auto health = co_await Ask(client, "GET", "/health", nullptr);
      if (!health) co_return std::unexpected(std::move(health.error()));
      if (run >= 0) row.milliseconds.push_back(Since(start));
    }
    bench->rows.push_back(std::move(row));
    co_return Status{};
  }

  async::Task<Status> MeasureLive(const char* checkpoint, std::chrono::milliseconds pause, BenchRow* row) const {
    http::Client client = Connect();
    auto session = co_await Open(client, checkpoint);
    if (!session) co_return std::unexpected(std::move(session.error()));
    Status ran;
    for (int run = -5; run < options_.runs * 3 && ran; ++run) {
      if (pause > 0ms) (void)co_await async::SleepUntil(async::Clock::now() + pause);
      auto start = async::Clock::now();
      ran = co_await RunCode(client, *session, "x = 1");
      if (run >= 0) row->milliseconds.push_back(Since(start));
    }
    if (!ran) co_return ran;
    co_return co_await Delete(client, *session);
  }

  // The bare interpreter and a program of the server in turns, so that what disturbs the machine disturbs both.
  async::Task<Status> MeasureAlone(SessionBench* bench) const {
    BenchRow bare{"floor: python3 -c 'print(1)'", "no isolation", {}, ""};
    BenchRow alone{"HTTP: one program, POST /v1/run", "in a jail of its own", {}, "", bare.name};
    http::Client client = Connect();
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const Json program = {{"code", "print(1)"}, {"policy", {{"python", python_}}}};
    for (int run = -5; run < options_.runs; ++run) {
      auto start = async::Clock::now();
      CO_TRY(os::Process process,
             StartOnHost({python_, "-c", "print(1)"}, {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}}));
      CO_TRY(const int status, process.Wait());
      if (status != 0) co_return Err(ErrorCode::kInternal, "'{}' failed", python_);
      if (run >= 0) bare.milliseconds.push_back(Since(start));
      (void)co_await async::SleepUntil(async::Clock::now() + kPause);
      start = async::Clock::now();
      auto result = co_await Ask(client, "POST", "/v1/run", program);
      if (!result) co_return std::unexpected(std::move(result.error()));
      if (result->value("status", "") != "ok") co_return Err(ErrorCode::kInternal, "print(1): {}", result->dump());
      if (run >= 0) alone.milliseconds.push_back(Since(start));
    }
    bench->rows.push_back(std::move(bare));
    bench->rows.push_back(std::move(alone));
    co_return Status{};
  }

  async::Task<Status> MeasureMany(SessionBench* bench) const {
    BenchRow create{fmt::format("HTTP: create, {} clients", kClients), "each request", {}, ""};
    BenchRow run{fmt::format("HTTP: run, {} clients", kClients), "each request", {}, ""};
    BenchRow remove{fmt::format("HTTP: delete, {} clients", kClients), "each request", {}, ""};
    const auto begin = async::Clock::now();
    Status failure;
    auto one = [&]() -> async::Task<void> {
      http::Client client = Connect();
      while (failure && async::Clock::now() - begin < kLong) {
        auto start = async::Clock::now();
        auto took = [&start](BenchRow& row) {
          row.milliseconds.push_back(Since(start));
          start = async::Clock::now();
        };
        auto session = co_await Open(client, "auto");
        Status done = session ? Status{} : std::unexpected(std::move(session.error()));
        if (done) {
          took(create);
          done = co_await RunCode(client, *session, "1 + 1");
        }
        if (done) {
          took(run);
          done = co_await Delete(client, *session);
        }
        if (!done) {
          failure = std::move(done);
          co_return;
        }
        took(remove);
      }
    };
    async::TaskGroup clients(loop_);
    for (int i = 0; i < kClients; ++i) clients.Add(one());
    co_await clients.Join();
    if (!failure) co_return failure;
    const double rate = static_cast<double>(remove.milliseconds.size()) / Since(begin) * 1000;
    bench->figures.push_back({"HTTP: created, run and deleted", rate, "sessions/s"});
    for (BenchRow* row : {&create, &run, &remove}) bench->rows.push_back(std::move(*row));
    co_return Status{};
  }

  async::Loop& loop_;
  const std::string address_;
  const std::string python_;
  const SessionBenchOptions& options_;
};

Result<os::Process> StartServer(const std::string& directory, const std::string& python) {
  const std::string config = directory + "/cella.toml";
  Json allowed = std::filesystem::path(python).parent_path().string();
  std::ofstream(config) << fmt::format("[allow]\npythons = [{}]\n", allowed.dump());
  TRY(std::string here, os::ProgramDirectory());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<std::string> argv = {here + "/cella", "serve",   "--listen",    "unix:" + directory + "/socket",
                                         "--state-dir",   directory, "--config",    config,
                                         "--log-level",   "error",   "--exit-with", std::to_string(getpid())};
  return StartOnHost(argv, {{null.get(), 0}, {null.get(), 1}, {STDERR_FILENO, 2}});
}

}  // namespace

Result<SessionBench> MeasureHttp(const SessionBenchOptions& options) {
  TRY(language::Python found, BenchPython(options.python));
  const std::string python = found.executable;
  TRY(BenchDirectory directory, BenchDirectory::Make());
  TRY(os::Process server, StartServer(directory.path(), python));
  if (options.progress) std::fputs("\rover HTTP ...", stderr);
  async::Loop loop;
  SessionBench bench;
  Meter meter(loop, "unix:" + directory.path() + "/socket", python, options);
  Status measured = loop.Run(meter.Run(&bench));
  (void)server.Signal(SIGTERM);
  (void)server.Wait();
  if (options.progress) std::fputs("\r               \r", stderr);
  if (!measured) return std::unexpected(std::move(measured.error()));
  return bench;
}

}  // namespace cella::cli
