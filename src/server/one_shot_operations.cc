// Code without a session that stays: one program, or a batch of independent snippets.
#include <nlohmann/json.hpp>
#include <set>

#include "async/caught.h"
#include "async/deadline.h"
#include "async/gate.h"
#include "policy/names.h"
#include "server/admission.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "server/quota.h"
#include "server/render.h"
#include "server/run_request.h"
#include "server/run_service.h"
#include "server/session_environment.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;
using Body = nlohmann::json;

constexpr size_t kMaxSnippets = 10'000;
constexpr uint64_t kMaxConcurrency = 64;
constexpr int kTooManyRequests = 429;

// Takes "policy" out of a body, if it is there.
Answer<SessionSpec> TakeSpec(Body* body, const Hub& hub, const std::string& client) {
  policy::Request request;
  if (auto found = body->find("policy"); found != body->end()) {
    if (!found->is_object()) return MustBe("policy", "an object", *found);
    auto read = ReadPolicy(*found);
    if (!read) return std::unexpected(std::move(read.error()));
    request = std::move(*read);
    body->erase(found);
  }
  return Admit(request, hub.config, client);
}

async::Task<void> RunOnce(Hub& hub, Call& call) {
  auto json = co_await ReadJsonBody(hub.work, call.exchange, hub.config.server.max_body);
  if (!json) co_return;
  auto spec = TakeSpec(&*json, hub, call.client);
  if (!spec) co_return co_await Refuse(call.exchange, std::move(spec.error()));
  auto request = ReadRunRequest(*json, hub.config, RunKind::kOneProgram);
  if (!request) co_return co_await Refuse(call.exchange, std::move(request.error()));
  if (request->run.blocks.size() != 1) {
    co_return co_await Refuse(call.exchange, Invalid("blocks: one program is one block; use a session").error());
  }
  auto lease = co_await PrepareProgram(hub, call.client, request->run, &*spec);
  if (!lease) co_return co_await Refuse(call.exchange, std::move(lease.error()));
  run::StopSource stop(hub.loop);
  async::TaskGroup watching(hub.loop);
  if (request->delivery.cancel_on_disconnect) {
    auto watch = [](http::Exchange& exchange, run::StopSource& source) -> async::Task<void> {
      co_await exchange.Disconnected();
      if (!exchange.is_connected()) (void)source.Request(StopReason::kClientGone);
    };
    watching.Add(watch(call.exchange, stop));
  }
  auto ran = co_await async::Caught(RunAlone(hub, call.client, *spec, std::move(request->run), "run.once", stop));
  watching.Cancel();
  (void)co_await async::Caught(watching.Join());
  Answer<RunResult> result = ran ? std::move(*ran) : Refused(ran.error());
  if (!result) co_return co_await Refuse(call.exchange, std::move(result.error()));
  const std::string text = co_await RenderResult(hub.work, *result);
  (void)co_await call.exchange.SendJson(200, text);
}

struct Snippet {
  RunSpec run;
  std::optional<std::string> expected;
};

struct Batch {
  SessionSpec spec;
  std::vector<Snippet> snippets;
  uint64_t concurrency = 2;
};

Answer<Batch> ReadBatch(Body body, const Hub& hub, const std::string& client) {
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
      return Invalid(policy::UnknownKey(key, {"policy", "snippets", "concurrency"}));
    }
  }
  auto snippets = body.find("snippets");
  if (snippets == body.end()) return Invalid("a batch needs 'snippets', a list of objects with 'code'");
  if (!snippets->is_array()) return MustBe("snippets", "a list", *snippets);
  if (snippets->size() > kMaxSnippets) {
    return Invalid(fmt::format("snippets: at most {}, got {}", kMaxSnippets, snippets->size()));
  }
  for (Body& value : *snippets) {
    Snippet snippet;
    if (!value.is_object()) return MustBe("snippets", "a list of objects with 'code'", value);
    if (auto expected = value.find("expected"); expected != value.end()) {
      if (!expected->is_string()) return MustBe("expected", "a string", *expected);
      snippet.expected = expected->get<std::string>();
      value.erase(expected);
    }
    auto request = ReadRunRequest(value, hub.config, RunKind::kAlone);
    if (!request) return std::unexpected(std::move(request.error()));
    snippet.run = std::move(request->run);
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
    auto all = co_await async::Caught(group.Join());
    watching.Cancel();
    (void)co_await async::Caught(watching.Join());
    // Without an end the client sees that results are missing.
    if (!gone_ && all) (void)co_await call_.exchange.End();
  }

 private:
  // No client is left for the results.
  async::Task<void> StopWhenGone() {
    co_await call_.exchange.Disconnected();
    if (call_.exchange.is_connected()) co_return;
    gone_ = true;
    for (run::StopSource* stop : on_) (void)stop->Request(StopReason::kClientGone);
  }

  async::Task<void> RunOne(size_t index, async::Gate::Pass place) {
    Snippet& snippet = batch_.snippets[index];
    Json line = {{"index", index}};
    auto result = co_await RunSnippet(snippet);
    std::string text;
    if (result) {
      if (snippet.expected) {
        line["passed"] = result->outcome.status == RunStatus::kOk && SameOutput(result->stdout_text, *snippet.expected);
      }
      text = ToText(line);
      text.pop_back();
      text += ",\"result\":" + co_await RenderResult(hub_.work, *result) + "}\n";
    } else {
      line["error"] = {{"code", result.error().code}, {"message", result.error().message}};
      text = ToText(line) + "\n";
    }
    snippet = {};
    auto turn = co_await writing_.Enter();
    auto written = co_await call_.exchange.Write(text);
    if (!written) gone_ = true;
  }

  // A quota that the batch's own runs have used up is waited for.
  async::Task<Answer<RunResult>> RunSnippet(Snippet& snippet) {
    for (;;) {
      run::StopSource stop(hub_.loop);
      on_.insert(&stop);
      auto result = co_await RunAlone(hub_, call_.client, batch_.spec, snippet.run, "run.batch", stop);
      on_.erase(&stop);
      const bool waits = !result && result.error().status == kTooManyRequests && !on_.empty() && !gone_;
      if (!waits) {
        // A refusal frees nothing, so that a run that goes on to wait wakes no other.
        if (ended_) ended_->Set();
        co_return result;
      }
      if (!ended_ || ended_->is_set()) ended_ = std::make_shared<async::Event>(hub_.loop);
      auto ended = ended_;
      (void)co_await ended->Wait();
    }
  }

  Hub& hub_;
  Call& call_;
  Batch batch_;
  async::Gate places_;
  async::Gate writing_;
  std::set<run::StopSource*> on_;
  std::shared_ptr<async::Event> ended_;  // set when one of its runs has ended
  bool gone_ = false;
};

async::Task<void> RunBatch(Hub& hub, Call& call) {
  auto json = co_await ReadJsonBody(hub.work, call.exchange, hub.config.server.max_body);
  if (!json) co_return;
  auto batch = ReadBatch(std::move(*json), hub, call.client);
  if (!batch) co_return co_await Refuse(call.exchange, std::move(batch.error()));
  if (hub.draining) co_return co_await Refuse(call.exchange, Draining());
  // The runs take their own shares; a client that may run nothing now is told before the stream begins.
  if (auto share = hub.quota.TakeRun(call.client); !share) {
    co_return co_await Refuse(call.exchange, std::move(share.error()));
  }
  auto lease = co_await PrepareEnvironment(hub, call.client, &batch->spec);
  if (!lease) co_return co_await Refuse(call.exchange, std::move(lease.error()));
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
