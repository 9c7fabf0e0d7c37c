// Runs of a session: start, follow, look at, page through their output, cancel.
#include <charconv>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "base/base64.h"
#include "policy/names.h"
#include "registry/registry.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "server/run_request.h"
#include "server/run_service.h"
#include "server/run_stream.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOutputPage = size_t{1} << 20;

ApiError EventsAreGone() {
  return {409, "closed", "its events are not kept any more", "GET the run itself: it has the Result", {}};
}

Answer<uint64_t> Number(std::string_view text, std::string_view name) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (text.empty() || error != std::errc() || end != text.end()) {
    return Invalid(fmt::format("{}: must be a whole number, got '{}'", name, policy::Shown(text)));
  }
  return value;
}

// The Result of a run that has ended: at hand, or in the registry.
async::Task<void> AnswerResult(Hub& hub, HostedRun& run, Call& call) {
  if (auto result = co_await run.LoadResult()) {
    (void)co_await call.exchange.SendJson(200, *result);
    co_return;
  }
  auto record = co_await hub.registry.FindRun(run.id());
  if (!record) co_return co_await Refuse(call.exchange, ToApiError(record.error()));
  if (!*record) co_return co_await Refuse(call.exchange, NotFound("there is no such run").error());
  (void)co_await call.exchange.SendJson(200, (*record)->result);
}

async::Task<void> AnswerWhenEnded(Hub& hub, const std::shared_ptr<HostedRun>& run, Call& call,
                                  bool cancel_on_disconnect) {
  HostedRun::Waiter waiter(*run);
  if (cancel_on_disconnect) {
    auto first = co_await async::FirstOf(run->Ended(), call.exchange.Disconnected());
    if (first.index() == 1) {
      (void)run->Stop(StopReason::kClientGone);
      co_return;
    }
  } else {
    (void)co_await run->Ended();
  }
  co_await AnswerResult(hub, *run, call);
}

async::Task<void> Start(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  auto json = co_await ReadJsonBody(hub.work, call.exchange, hub.config.server.max_body);
  if (!json) co_return;
  auto request = ReadRunRequest(*json, hub.config);
  if (!request) co_return co_await Refuse(call.exchange, std::move(request.error()));
  const bool wait = request->delivery.wait;
  const bool cancel_on_disconnect = request->delivery.cancel_on_disconnect;
  auto run = co_await StartRun(hub, **session, std::move(request->run), std::move(request->delivery));
  if (!run) co_return co_await Refuse(call.exchange, std::move(run.error()));
  const StreamFormat format = WantedFormat(call.exchange.request());
  if (format != StreamFormat::kNone && (*run)->is_stored()) {
    co_await Refuse(call.exchange, EventsAreGone());
  } else if (format != StreamFormat::kNone) {
    bool whole = co_await StreamEvents(call.exchange, **run, std::nullopt, format);
    if (!whole && cancel_on_disconnect) (void)(*run)->Stop(StopReason::kClientGone);
  } else if (wait) {
    co_await AnswerWhenEnded(hub, *run, call, cancel_on_disconnect);
  } else {
    co_await AnswerJson(call.exchange, 202, {{"id", (*run)->id()}, {"session", (*session)->id()}});
  }
}

Json Describe(const registry::RunRecord& record) {
  Json json;
  json["id"] = record.id;
  json["session"] = record.session;
  json["number"] = record.number;
  json["status"] = record.status;
  json["exit_code"] = record.exit_code ? Json(*record.exit_code) : Json(nullptr);
  json["language"] = record.language;
  json["code_sha256"] = record.code_sha256;
  return json;
}

async::Task<void> List(Hub& hub, Call& call) {
  const std::string id(call.parameters[0]);
  registry::PageQuery query;
  query.after = call.exchange.request().parameter("after").value_or("");
  if (auto text = call.exchange.request().parameter("limit")) {
    auto limit = Number(*text, "limit");
    if (!limit) co_return co_await Refuse(call.exchange, std::move(limit.error()));
    query.limit = std::clamp<size_t>(*limit, 1, registry::kMaxPage);
  }
  auto known = co_await hub.registry.FindSession(id);
  if (!known) co_return co_await Refuse(call.exchange, ToApiError(known.error()));
  if (!*known || (*known)->owner != call.client || (*known)->closed_because == kDeleted) {
    co_return co_await Refuse(call.exchange, NotFound("there is no such session").error());
  }
  auto page = co_await hub.registry.ListRuns(id, std::move(query));
  if (!page) co_return co_await Refuse(call.exchange, ToApiError(page.error()));
  Json runs = Json::array();
  auto live = hub.sessions.Find(id, call.client);
  for (registry::RunRecord& record : page->items) {
    auto run = live ? (*live)->FindRun(record.id) : nullptr;
    if (run && run->phase() == HostedRun::Phase::kRunning) record.status = "running";
    runs.push_back(Describe(record));
  }
  co_await AnswerJson(call.exchange, 200,
                      {{"runs", std::move(runs)}, {"next", page->next.empty() ? Json() : Json(page->next)}});
}

// One that is at hand, with its session.
struct LiveRun {
  std::shared_ptr<HostedSession> session;
  std::shared_ptr<HostedRun> run;
};

LiveRun FindLive(const Hub& hub, const Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) return {};
  return {*session, (*session)->FindRun(call.parameters[1])};
}

// Of the registry, if it belongs to who asks.
async::Task<Answer<registry::RunRecord>> FindStored(Hub& hub, const Call& call) {
  const std::string session(call.parameters[0]);
  auto record = co_await hub.registry.FindRun(std::string(call.parameters[1]));
  if (!record) co_return Refused(record.error());
  if (!*record || (*record)->owner != call.client || (*record)->session != session) {
    co_return NotFound("there is no such run");
  }
  auto whose = co_await hub.registry.FindSession(session);
  if (!whose) co_return Refused(whose.error());
  if (!*whose || (*whose)->closed_because == kDeleted) co_return NotFound("there is no such session");
  co_return std::move(**record);
}

async::Task<void> Show(Hub& hub, Call& call) {
  LiveRun live = FindLive(hub, call);
  if (live.run && live.run->phase() == HostedRun::Phase::kEnded) {
    co_return co_await AnswerResult(hub, *live.run, call);
  }
  if (live.run) {
    const bool running = live.run->phase() == HostedRun::Phase::kRunning;
    co_return co_await AnswerJson(call.exchange, 200,
                                  {{"id", live.run->id()},
                                   {"session", live.session->id()},
                                   {"status", running ? "running" : "queued"},
                                   {"events", live.run->events()->next_number()}});
  }
  auto record = co_await FindStored(hub, call);
  if (!record) co_return co_await Refuse(call.exchange, std::move(record.error()));
  if (!record->result.empty()) {
    (void)co_await call.exchange.SendJson(200, record->result);
    co_return;
  }
  co_await AnswerJson(call.exchange, 200, Describe(*record));
}

async::Task<void> Events(Hub& hub, Call& call) {
  std::optional<uint64_t> after;
  std::string_view asked = call.exchange.request().parameter("after").value_or("");
  if (asked.empty()) asked = call.exchange.request().header("Last-Event-ID").value_or("");
  if (!asked.empty()) {
    auto number = Number(asked, "after");
    if (!number) co_return co_await Refuse(call.exchange, std::move(number.error()));
    after = *number;
  }
  StreamFormat format = WantedFormat(call.exchange.request());
  if (format == StreamFormat::kNone) format = StreamFormat::kNdjson;
  LiveRun live = FindLive(hub, call);
  if (live.run) {
    (void)co_await StreamEvents(call.exchange, *live.run, after, format);
    co_return;
  }
  auto record = co_await FindStored(hub, call);
  if (!record) co_return co_await Refuse(call.exchange, std::move(record.error()));
  // Of a run that was lost, the last events are all that there is; of one that ended, they would not be the whole.
  if (!record->result.empty()) co_return co_await Refuse(call.exchange, EventsAreGone());
  auto events = co_await hub.registry.ListEvents(record->id, after ? *after + 1 : 0);
  if (!events) co_return co_await Refuse(call.exchange, ToApiError(events.error()));
  std::string lines;
  for (const registry::EventRecord& event : *events) {
    lines += format == StreamFormat::kSse ? ToSse(event.event) : event.event + "\n";
  }
  (void)co_await call.exchange.Send(
      200, {{"Content-Type", format == StreamFormat::kSse ? "text/event-stream" : "application/x-ndjson"}}, lines);
}

async::Task<void> Output(Hub& hub, Call& call) {
  const http::Request& request = call.exchange.request();
  const std::string_view name = request.parameter("stream").value_or("stdout");
  if (name != "stdout" && name != "stderr") {
    co_return co_await Refuse(call.exchange, Invalid("stream: stdout or stderr").error());
  }
  const Stream stream = name == "stdout" ? Stream::kStdout : Stream::kStderr;
  auto offset = Number(request.parameter("offset").value_or("0"), "offset");
  if (!offset) co_return co_await Refuse(call.exchange, std::move(offset.error()));
  auto limit = Number(request.parameter("limit").value_or("1048576"), "limit");
  if (!limit) co_return co_await Refuse(call.exchange, std::move(limit.error()));
  LiveRun live = FindLive(hub, call);
  if (!live.run) {
    auto record = co_await FindStored(hub, call);
    co_return co_await Refuse(call.exchange, record ? ApiError{409, "closed", "its output is not kept any more", {}, {}}
                                                    : std::move(record.error()));
  }
  auto bytes = live.run->ReadOutput(stream, *offset, std::min<size_t>(*limit, kOutputPage));
  if (!bytes && bytes.error().code != ErrorCode::kInvalid) {
    // Do not reveal the host path to the client.
    co_return co_await Refuse(call.exchange, ApiError{409, "closed", "its output is not kept any more", {}, {}});
  }
  if (!bytes) co_return co_await Refuse(call.exchange, ToApiError(bytes.error()));
  const std::string size = std::to_string(live.run->OutputSize(stream));
  (void)co_await call.exchange.Send(200, {{"Content-Type", "application/octet-stream"}, {"X-Cella-Stream-Size", size}},
                                    *bytes);
}

// One representation of an output: of a Result's JSON. kNotFound: the Result has none, or left it out.
Result<std::string> FindRepresentation(std::string_view result, uint64_t index, const std::string& type) {
  const Json json = Json::parse(result, nullptr, false);
  const auto outputs = json.find("outputs");
  if (outputs == json.end() || !outputs->is_array() || index >= outputs->size()) {
    return Err(ErrorCode::kNotFound, "the run has no output {}", index);
  }
  const Json& output = (*outputs)[index];
  std::string types;
  for (const char* key : {"mime", "left_out"}) {
    const auto found = output.find(key);
    if (found == output.end()) continue;
    for (const auto& [name, data] : found->items()) {
      if (name == type && data.is_string()) return data.get<std::string>();
      if (name == type) return Err(ErrorCode::kClosed, "its content is not kept any more");
      types += types.empty() ? name : ", " + name;
    }
  }
  return Err(ErrorCode::kNotFound, "output {} has no representation '{}': it has {}", index, type, types);
}

bool IsText(std::string_view type) {
  return type.starts_with("text/") || type == "image/svg+xml" || type.ends_with("json") || type.ends_with("javascript");
}

// At hand, or what the registry has of it.
async::Task<Answer<std::shared_ptr<const std::string>>> FindResult(Hub& hub, const Call& call, const LiveRun& live) {
  if (live.run && live.run->phase() != HostedRun::Phase::kEnded) {
    co_return Conflict("the run has not ended", "wait for its end");
  }
  if (live.run) {
    if (auto result = co_await live.run->LoadResult()) co_return result;
  }
  auto record = co_await FindStored(hub, call);
  if (!record) co_return std::unexpected(std::move(record.error()));
  co_return std::make_shared<const std::string>(std::move(record->result));
}

async::Task<void> ShowOutput(Hub& hub, Call& call) {
  auto index = Number(call.parameters[2], "output");
  if (!index) co_return co_await Refuse(call.exchange, std::move(index.error()));
  const std::string type(call.exchange.request().parameter("type").value_or(""));
  const LiveRun live = FindLive(hub, call);
  if (type.empty()) {
    // A run of another client is not found, whatever else is wrong.
    auto result = co_await FindResult(hub, call, live);
    co_return co_await Refuse(
        call.exchange,
        result ? Invalid("type: name the representation, such as type=image/png").error() : std::move(result.error()));
  }
  Result<std::string> content = Err(ErrorCode::kNotFound, "");
  if (live.run) content = co_await live.run->large().Read(*index, type);
  if (!content) {
    auto result = co_await FindResult(hub, call, live);
    if (!result) co_return co_await Refuse(call.exchange, std::move(result.error()));
    auto find = [&] { return FindRepresentation(**result, *index, type); };
    content = co_await hub.work.Run(find);
  }
  if (content && !IsText(type)) {
    auto decode = [&]() -> Result<std::string> { return DecodeBase64(*content); };
    auto bytes = co_await hub.work.Run(decode);
    // Base64 that is none is a guest's doing: its text is what there is.
    if (bytes) content = std::move(bytes);
  }
  if (!content && content.error().code == ErrorCode::kClosed) {
    co_return co_await Refuse(call.exchange, ApiError{409, "closed", content.error().message, {}, {}});
  }
  if (!content) co_return co_await Refuse(call.exchange, ToApiError(content.error()));
  // Guests choose the content and its type: no browser shall run it in our name.
  (void)co_await call.exchange.Send(200,
                                    {{"Content-Type", "application/octet-stream"},
                                     {"Content-Disposition", "attachment"},
                                     {"X-Content-Type-Options", "nosniff"}},
                                    *content);
}

// `word` tells in the answer whether the request was accepted.
async::Task<void> Stop(Hub& hub, Call& call, StopReason reason, std::string_view word) {
  LiveRun live = FindLive(hub, call);
  if (live.run) {
    (void)live.run->Stop(reason);
    const bool ended = live.run->phase() == HostedRun::Phase::kEnded;
    co_return co_await AnswerJson(call.exchange, ended ? 200 : 202, {{"id", live.run->id()}, {word, !ended}});
  }
  auto record = co_await FindStored(hub, call);
  if (!record) co_return co_await Refuse(call.exchange, std::move(record.error()));
  co_await AnswerJson(call.exchange, 200, {{"id", record->id}, {word, false}});
}

async::Task<void> Cancel(Hub& hub, Call& call) { return Stop(hub, call, StopReason::kCancel, "cancelled"); }

async::Task<void> Interrupt(Hub& hub, Call& call) {
  LiveRun live = FindLive(hub, call);
  if (live.run) {
    const bool interrupted = live.run->Stop(StopReason::kInterrupt);
    co_return co_await AnswerJson(call.exchange, 200, {{"id", live.run->id()}, {"interrupted", interrupted}});
  }
  co_return co_await Stop(hub, call, StopReason::kInterrupt, "interrupted");
}

}  // namespace

void AddRunOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("POST", "/v1/sessions/{id}/runs", "Run code; the Result, or a stream of events", Start);
  add("GET", "/v1/sessions/{id}/runs", "List the runs of a session", List);
  add("GET", "/v1/sessions/{id}/runs/{run}", "Show a run: its Result once it has ended", Show);
  add("GET", "/v1/sessions/{id}/runs/{run}/events", "Follow the events of a run, after=N resumes", Events);
  add("GET", "/v1/sessions/{id}/runs/{run}/output", "Page through all that a run wrote", Output);
  add("GET", "/v1/sessions/{id}/runs/{run}/outputs/{output}", "Get one representation of an output, type=image/png",
      ShowOutput);
  add("POST", "/v1/sessions/{id}/runs/{run}/cancel", "Cancel a run that waits or is on", Cancel);
  add("POST", "/v1/sessions/{id}/runs/{run}/interrupt", "Interrupt a run that waits or is on; state is kept",
      Interrupt);
}

}  // namespace cella::server
