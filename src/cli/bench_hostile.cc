#include "cli/bench_hostile.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "async/task_group.h"
#include "http/client.h"

namespace cella::cli {
namespace {

using Json = nlohmann::json;

std::string Repeat(std::string_view part, size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

// Each was slow to read once: deep, wide, many, and one long text.
std::vector<std::string> Bodies() {
  std::string wide = "{";
  for (int i = 0; i < 200'000; ++i) wide += fmt::format("\"k{}\":{},", i, i);
  return {"[" + Repeat("{},", 160'000) + "{}]", Repeat("[", size_t{60} << 20), Repeat("{\"a\":", 4'000'000),
          wide + "\"end\":0}", R"({"code":")" + std::string(size_t{30} << 20, '#') + R"("})"};
}

// As a runner speaks, past its own bounds.
constexpr std::string_view kForger = R"(
import json, os, socket, struct
channel = next(n for n in range(1023, 2, -1) if os.path.exists(f"/proc/self/fd/{n}")
               and os.readlink(f"/proc/self/fd/{n}").startswith("socket:"))
def send(frame):
    body = json.dumps({"type": "display", **frame}).encode()
    socket.socket(fileno=os.dup(channel)).sendall(struct.pack("<I", len(body)) + body)
)";
constexpr std::string_view kFrames[] = {
    R"(send({"mime": {f"a/{i}": "" for i in range(50000)}}))",
    R"(send({"mime": {}, "metadata": {f"k{i}": i for i in range(50000)}}))",
    R"(send({"mime": {f"a/{i}": "" for i in range(200000)}}))",
    R"(for _ in range(8): send({"mime": {"text/plain": "\u00e9\n" * 2000000}}))",
    R"(for _ in range(20000): send({"mime": {f"a/{i}": "x" for i in range(64)}}))",
};

class Hostile {
 public:
  Hostile(async::Loop& loop, http::Url url, std::string python)
      : loop_(loop), url_(std::move(url)), python_(std::move(python)) {}

  async::Task<Result<std::vector<BenchFigure>>> Run() {
    const double before = co_await Metric("cella_loop_lag_seconds_max");
    async::TaskGroup group(loop_);
    group.Add(SendBodies());
    group.Add(SendFrames());
    co_await group.Join();
    if (!failure_) co_return std::unexpected(std::move(failure_.error()));
    const double longest = co_await Metric("cella_loop_lag_seconds_max");
    const double all = co_await Metric("cella_loop_lag_seconds_count");
    const double short_ones = co_await Metric("cella_loop_lag_seconds_bucket{le=\"0.25\"}");
    std::vector<BenchFigure> figures;
    figures.push_back({"HTTP: longest stop of the loop before that", before * 1000, "ms"});
    figures.push_back({"HTTP: longest stop, hostile guests and bodies", longest * 1000, "ms"});
    figures.push_back({"HTTP: stops above 250 ms", all - short_ones, ""});
    co_return figures;
  }

 private:
  async::Task<Result<http::ClientResponse>> Post(http::Client& client, std::string target, std::string body) const {
    http::ClientRequest request{"POST", std::move(target), {{"Content-Type", "application/json"}}, std::move(body)};
    auto response = co_await client.Fetch(request);
    co_return response;
  }

  async::Task<Result<std::string>> Open(http::Client& client) const {
    auto answer = co_await Post(client, "/v1/sessions", Json{{"python", python_}}.dump());
    CO_TRY(http::ClientResponse response, std::move(answer));
    Json session = Json::parse(response.body, nullptr, false);
    if (response.status != 201) co_return Err(ErrorCode::kInternal, "{}", response.body);
    co_return "/v1/sessions/" + session.value("id", "") + "/runs";
  }

  // Refusals are what is expected; a server that does not answer is a failure.
  async::Task<void> SendBodies() {
    for (const std::string& body : Bodies()) {
      http::Client client(loop_, url_, {});
      auto answer = co_await Post(client, "/v1/run", body);
      if (!answer && answer.error().code != ErrorCode::kClosed) failure_ = std::unexpected(std::move(answer.error()));
    }
  }

  async::Task<void> SendFrames() {
    for (std::string_view frame : kFrames) {
      http::Client client(loop_, url_, {});
      auto runs = co_await Open(client);
      if (!runs) {
        failure_ = std::unexpected(std::move(runs.error()));
        co_return;
      }
      auto answer = co_await Post(client, *runs, Json{{"code", std::string(kForger) + std::string(frame)}}.dump());
      if (!answer) failure_ = std::unexpected(std::move(answer.error()));
      (void)co_await client.Fetch({"DELETE", runs->substr(0, runs->rfind('/')), {}, {}});
    }
  }

  // 0: there is none of that name.
  async::Task<double> Metric(std::string_view name) const {
    http::Client client(loop_, url_, {});
    auto answer = co_await client.Fetch({"GET", "/metrics", {}, {}});
    if (!answer) co_return 0;
    const std::string line = fmt::format("\n{} ", name);
    const size_t at = answer->body.find(line);
    double value = 0;
    if (at == std::string::npos) co_return value;
    const char* begin = answer->body.data() + at + line.size();
    (void)std::from_chars(begin, answer->body.data() + answer->body.size(), value);
    co_return value;
  }

  async::Loop& loop_;
  const http::Url url_;
  const std::string python_;
  Status failure_;
};

}  // namespace

async::Task<Result<std::vector<BenchFigure>>> MeasureHostile(async::Loop& loop, std::string address,
                                                             std::string python) {
  auto url = http::ParseUrl(address);
  if (!url) co_return std::unexpected(std::move(url.error()));
  Hostile hostile(loop, std::move(*url), std::move(python));
  auto figures = co_await hostile.Run();
  co_return figures;
}

}  // namespace cella::cli
