// Code without a session that stays: one program, or a batch of independent snippets.
#include <nlohmann/json.hpp>
#include <set>

#include "async/deadline.h"
#include "async/gate.h"
#include "os/io.h"
#include "server/admission.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/names.h"
#include "server/operations.h"
#include "server/policy_document.h"
#include "server/run_record.h"
#include "server/run_request.h"
#include "session/capped_sink.h"
#include "session/fold.h"
#include "session/json.h"
#include "session/rejected.h"

namespace cella::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSnippets = 10'000;
constexpr uint64_t kMaxConcurrency = 64;

// Takes "policy" out of a body, if it is there.
Answer<SessionSpec> TakeSpec(Json* body, const Hub& hub, const std::string& client) {
  PolicyDocument document;
  if (auto found = body->find("policy"); found != body->end()) {
    if (!found->is_object()) return Invalid("policy: an object is expected");
    auto read = ReadPolicyDocument(*found);
    if (!read) return std::unexpected(std::move(read.error()));
    document = std::move(*read);
    body->erase(found);
  }
  return Admit(document, hub.config, client);
}

// A program of its own, as `cella run` starts one.
async::Task<RunResult> RunProgram(const Hub& hub, const SessionSpec& spec, RunWish& wish, async::Event& cancel) {
  session::ResultFold fold(session::NewRunId());
  session::CappedSink capped(fold, spec.policy.limits.output.value);
  Result<Outcome> outcome = Err(ErrorCode::kUnsupported, "this executor is not allowed here");
  if (session::Engine* engine = hub.engines.Find(spec.executor)) {
    executor::RunRequest request;
    request.block = std::move(wish.blocks.front());
    request.policy = spec.policy;
    if (wish.timeout) request.policy.limits.timeout = {*wish.timeout, true};
    request.list_files = true;
    outcome = Outcome{};
    if (wish.stdin_text) {
      auto text = os::MakeMemfd("cella-stdin", std::as_bytes(std::span<const char>(*wish.stdin_text)));
      if (text) {
        request.standard_input = std::move(*text);
      } else {
        outcome = std::unexpected(std::move(text.error()));
      }
    }
    if (outcome) outcome = co_await engine->executor->Run(std::move(request), capped, cancel);
  }
  co_await capped.Flush();
  Event finished = FinishedEvent{outcome ? std::move(*outcome) : session::Rejected(outcome.error()), StateAfter::kNone};
  (void)co_await fold.Emit(std::move(finished));
  co_return fold.Take();
}

async::Task<void> RunOnce(Hub& hub, Call& call) {
  auto body = co_await call.exchange.ReadBody(hub.config.server.max_body);
  if (!body) co_return;
  auto json = ParseJsonObject(*body);
  if (!json) co_return co_await Refuse(call.exchange, std::move(json.error()));
  auto spec = TakeSpec(&*json, hub, call.client);
  if (!spec) co_return co_await Refuse(call.exchange, std::move(spec.error()));
  auto wish = ReadRunWish(*json, hub.config);
  if (!wish) co_return co_await Refuse(call.exchange, std::move(wish.error()));
  if (hub.draining) co_return co_await Refuse(call.exchange, Draining());
  if (wish->blocks.size() != 1) {
    co_return co_await Refuse(call.exchange, Invalid("blocks: one program is one block; use a session").error());
  }
  auto share = hub.quota.TakeRun(call.client);
  if (!share) co_return co_await Refuse(call.exchange, std::move(share.error()));
  hub.metrics.RunAccepted();
  const async::TimePoint start = async::Clock::now();
  async::Event cancel(hub.loop);
  async::TaskGroup watching(hub.loop);
  if (wish->cancel_on_disconnect) {
    auto watch = [](http::Exchange& exchange, async::Event& event) -> async::Task<void> {
      co_await exchange.Disconnected();
      if (!exchange.is_connected()) event.Set();
    };
    watching.Add(watch(call.exchange, cancel));
  }
  const std::string hash = CodeHash(wish->blocks);
  RunResult result = co_await RunProgram(hub, *spec, *wish, cancel);
  watching.Cancel();
  co_await watching.Join();
  hub.metrics.RunEnded(result.outcome.status, async::Clock::now() - start);
  (void)co_await call.exchange.SendJson(200, session::ToJson(result));
  co_await RecordRun(hub, "run.once", call.client, result, hash);
}

struct Snippet {
  RunWish wish;
  std::optional<std::string> expected;
};

struct Batch {
  SessionSpec spec;
  std::vector<Snippet> snippets;
  uint64_t concurrency = 2;
};

Answer<Batch> ReadBatch(Json body, const Hub& hub, const std::string& client) {
  Batch batch;
  auto spec = TakeSpec(&body, hub, client);
  if (!spec) return std::unexpected(std::move(spec.error()));
  batch.spec = std::move(*spec);
  for (const auto& [key, value] : body.items()) {
    if (key == "concurrency") {
      if (!value.is_number_unsigned() || value == 0u || value > kMaxConcurrency) {
        return Invalid(fmt::format("concurrency: a number from 1 to {}", kMaxConcurrency));
      }
      batch.concurrency = value.get<uint64_t>();
    } else if (key != "snippets") {
      return Invalid(UnknownKey(key, {"policy", "snippets", "concurrency"}));
    }
  }
  auto snippets = body.find("snippets");
  if (snippets == body.end() || !snippets->is_array() || snippets->size() > kMaxSnippets) {
    return Invalid(fmt::format("snippets: a list of at most {} is needed", kMaxSnippets));
  }
  for (Json& value : *snippets) {
    Snippet snippet;
    if (!value.is_object()) return Invalid("snippets: each is an object with 'code'");
    if (auto expected = value.find("expected"); expected != value.end()) {
      if (!expected->is_string()) return Invalid("expected: text is expected");
      snippet.expected = expected->get<std::string>();
      value.erase(expected);
    }
    auto wish = ReadRunWish(value, hub.config);
    if (!wish) return std::unexpected(std::move(wish.error()));
    snippet.wish = std::move(*wish);
    batch.snippets.push_back(std::move(snippet));
  }
  return batch;
}

// Lines that end alike and differ in spaces at their ends only are what people mean by the same output.
bool SameOutput(std::string_view a, std::string_view b) {
  auto trim = [](std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    return text;
  };
  return trim(a) == trim(b);
}

// Each in a jail of its own, forked from a warm interpreter.
class BatchRunner {
 public:
  BatchRunner(Hub& hub, Call& call, Batch batch)
      : hub_(hub),
        call_(call),
        batch_(std::move(batch)),
        places_(hub.loop, batch_.concurrency),
        writing_(hub.loop, 1) {}

  async::Task<void> Run() {
    auto begun = co_await call_.exchange.Begin(200, {{"Content-Type", "application/x-ndjson"}});
    if (!begun) co_return;
    async::TaskGroup group(hub_.loop), watching(hub_.loop);
    watching.Add(StopWhenGone());
    for (size_t i = 0; i < batch_.snippets.size() && !gone_; ++i) {
      auto place = co_await places_.Enter();
      if (gone_) break;
      group.Add(RunOne(i, std::move(place)));
    }
    co_await group.Join();
    watching.Cancel();
    co_await watching.Join();
    if (!gone_) (void)co_await call_.exchange.End();
  }

 private:
  // Nobody is left who wants the results.
  async::Task<void> StopWhenGone() {
    co_await call_.exchange.Disconnected();
    if (call_.exchange.is_connected()) co_return;
    gone_ = true;
    for (session::Session* session : on_) session->Cancel();
  }

  async::Task<void> RunOne(size_t index, async::Gate::Pass place) {
    Snippet& snippet = batch_.snippets[index];
    nlohmann::ordered_json line = {{"index", index}};
    auto result = co_await RunInJail(snippet.wish);
    if (result) {
      if (snippet.expected) {
        line["passed"] = result->outcome.status == RunStatus::kOk && SameOutput(result->stdout_text, *snippet.expected);
      }
      line["result"] = nlohmann::ordered_json::parse(session::ToJson(*result));
    } else {
      const ApiError error = ToApiError(result.error());
      line["error"] = {{"code", error.code}, {"message", error.message}};
    }
    snippet = {};
    auto turn = co_await writing_.Enter();
    const std::string text = ToText(line) + "\n";
    auto written = co_await call_.exchange.Write(text);
    if (!written) gone_ = true;
  }

  async::Task<Result<RunResult>> RunInJail(RunWish& wish) {
    session::Engine* engine = hub_.engines.Find(batch_.spec.executor);
    if (engine == nullptr) co_return Err(ErrorCode::kPermission, "this executor is not allowed here");
    session::SessionOptions options;
    options.request.policy = batch_.spec.policy;
    options.request.preload = batch_.spec.preload;
    options.request.checkpoint = language::CheckpointMode::kOff;
    auto session = co_await session::Session::Open(hub_.loop, *engine->executor, std::move(options));
    if (!session) co_return std::unexpected(std::move(session.error()));
    if (gone_) {
      co_await (*session)->Close();
      co_return Err(ErrorCode::kClosed, "the client is gone");
    }
    session::RunInput input;
    input.blocks = std::move(wish.blocks);
    input.timeout = wish.timeout;
    input.stdin_text = std::move(wish.stdin_text);
    const async::TimePoint start = async::Clock::now();
    const std::string hash = CodeHash(input.blocks);
    hub_.metrics.RunAccepted();
    on_.insert(session->get());
    auto result = co_await (*session)->Run(std::move(input));
    on_.erase(session->get());
    hub_.metrics.RunEnded(result ? result->outcome.status : RunStatus::kRejected, async::Clock::now() - start);
    if (result) {
      co_await RecordRun(hub_, "run.batch", call_.client, *result, hash);
    }
    co_await (*session)->Close();
    co_return result;
  }

  Hub& hub_;
  Call& call_;
  Batch batch_;
  async::Gate places_;
  async::Gate writing_;
  std::set<session::Session*> on_;
  bool gone_ = false;
};

async::Task<void> RunBatch(Hub& hub, Call& call) {
  auto body = co_await call.exchange.ReadBody(hub.config.server.max_body);
  if (!body) co_return;
  auto json = ParseJsonObject(*body);
  if (!json) co_return co_await Refuse(call.exchange, std::move(json.error()));
  auto batch = ReadBatch(std::move(*json), hub, call.client);
  if (!batch) co_return co_await Refuse(call.exchange, std::move(batch.error()));
  if (hub.draining) co_return co_await Refuse(call.exchange, Draining());
  auto share = hub.quota.TakeRun(call.client);
  if (!share) co_return co_await Refuse(call.exchange, std::move(share.error()));
  BatchRunner runner(hub, call, std::move(*batch));
  co_await runner.Run();
}

}  // namespace

void AddOneShotOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("POST", "/v1/run", "Run one program in a jail of its own", RunOnce);
  add("POST", "/v1/batch", "Run independent snippets, results as they end", RunBatch);
}

}  // namespace cella::server
