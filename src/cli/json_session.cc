#include "cli/json_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "async/signals.h"
#include "base/units.h"
#include "session/json.h"
#include "session/json_value.h"
#include "session/variables.h"

namespace cella::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxLine = size_t{64} << 20;

std::string_view CodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid: return "invalid";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kPermission: return "permission";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kExhausted: return "exhausted";
    case ErrorCode::kClosed: return "closed";
    case ErrorCode::kInternal: break;
  }
  return "internal";
}

Json ToJson(const Error& error) { return {{"error", {{"code", CodeName(error.code)}, {"message", error.message}}}}; }

std::string Line(const Json& id, const Json& answer) {
  Json line = Json::object();
  if (!id.is_null()) line["id"] = id;
  line.update(answer);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Text(const Json& request, const char* key, std::string otherwise = "") {
  auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::move(otherwise);
}

Result<RunSpec> ParseRun(const Json& request, const std::string& language) {
  RunSpec input;
  if (!request.contains("code")) return Err(ErrorCode::kInvalid, "a run needs \"code\"");
  for (const char* key : {"code", "language", "stdin"}) {
    auto found = request.find(key);
    if (found != request.end() && !found->is_string() && !(found->is_null() && key != std::string_view("code"))) {
      return Err(ErrorCode::kInvalid, "\"{}\" must be text", key);
    }
  }
  for (const char* key : {"input", "events"}) {
    auto found = request.find(key);
    if (found != request.end() && !found->is_boolean() && !found->is_null()) {
      return Err(ErrorCode::kInvalid, "\"{}\" must be true or false", key);
    }
  }
  input.blocks = {{Text(request, "language", language), Text(request, "code")}};
  if (auto found = request.find("stdin"); found != request.end() && found->is_string()) input.stdin_text = *found;
  if (auto found = request.find("input"); found != request.end() && found->is_boolean()) input.answers_input = *found;
  if (auto found = request.find("variables"); found != request.end() && !found->is_null()) {
    TRY(input.variables, session::ReadVariables(nlohmann::json(*found)));
  }
  if (auto found = request.find("timeout"); found != request.end() && !found->is_null()) {
    auto timeout = ParseDuration(found->is_string() ? found->get<std::string>() : found->dump());
    if (!timeout) return std::unexpected(std::move(timeout.error()).WithContext("timeout"));
    input.timeout = *timeout;
  }
  return input;
}

// {"id": …, "event": {…}}
class EventLines : public run::EventSink {
 public:
  EventLines(LineWriter& out, Json id) : out_(out), id_(std::move(id)), encoder_("") {}

  async::Task<bool> Emit(Event event) override {
    std::string line = encoder_.Encode(event);
    if (line.empty()) co_return true;
    std::string text = "{";
    if (!id_.is_null()) text += "\"id\":" + id_.dump(-1, ' ', false, Json::error_handler_t::replace) + ",";
    text += "\"event\":" + line + "}\n";
    bool wanted = co_await out_.Write(std::move(text));
    co_return wanted;
  }

 private:
  LineWriter& out_;
  Json id_;
  session::EventEncoder encoder_;
};

}  // namespace

async::Task<int> JsonSession::Run() {
  async::StopSignals stop(loop_);
  auto requests = [](JsonSession& self) -> async::Task<bool> {
    co_await self.ReadRequests();
    co_return true;
  };
  auto ended = [](JsonSession& self, async::StopSignals& signals) -> async::Task<bool> {
    (void)co_await async::FirstOf(self.reader_gone_.Wait(), signals.Wait());
    co_return true;
  };
  auto first = co_await async::FirstOf(requests(*this), ended(*this, stop));
  // Stopped from outside: what runs is cancelled, what waits is refused.
  if (first.index() == 1) co_await session_.Close();
  co_await work_.Join();
  const bool unheard = out_.closed();
  co_await out_.Finish();
  co_return unheard || out_.closed() ? kExitRejected : 0;
}

async::Task<void> JsonSession::ReadRequests() {
  async::Opened input = async::OpenPrivately(STDIN_FILENO, O_RDONLY);
  if (!input.fd) co_return;
  async::Descriptor source(loop_, std::move(input.fd), input.sharing);
  std::string pending;
  bool at_end = false;
  std::array<char, 65536> buffer;
  while (!out_.closed() && pending.size() < kMaxLine) {
    bool readable = co_await source.Readable();
    if (!readable) co_return;
    auto n = co_await source.ReadSome(buffer);
    at_end = !n || *n == 0;
    if (at_end) break;
    size_t searched = pending.size();
    pending.append(buffer.data(), *n);
    size_t begin = 0;
    for (size_t end; (end = pending.find('\n', std::max(begin, searched))) != std::string::npos; begin = end + 1) {
      Dispatch(pending.substr(begin, end - begin));
    }
    pending.erase(0, begin);
  }
  // The last line need not end; but one that was cut off by a signal is none.
  if (at_end && !pending.empty()) Dispatch(std::move(pending));
}

void JsonSession::Dispatch(std::string line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  work_.Add(Serve(std::move(line)));
}

std::shared_ptr<session::Run> JsonSession::Find(const Json& request_id) const {
  for (const auto& [id, run] : runs_) {
    if (id == request_id.dump()) return run;
  }
  return nullptr;
}

async::Task<Result<RunResult>> JsonSession::RunToEnd(RunSpec spec, run::EventSink* sink, const Json& id) {
  auto run = session_.Submit(std::move(spec), sink);
  if (!run) co_return std::unexpected(std::move(run.error()));
  auto entry = runs_.emplace(runs_.end(), id.dump(), *run);
  (void)co_await (*run)->Ended();
  runs_.erase(entry);
  co_return (*run)->result();
}

async::Task<void> JsonSession::Serve(std::string line) {
  Json request = Json::parse(line, nullptr, false);
  Json id = request.is_object() && request.contains("id") ? request["id"] : Json(nullptr);
  const bool names_op = request.is_object() && request.contains("op");
  const std::string op = !request.is_object() ? "" : names_op ? Text(request, "op") : "run";
  Status status = Err(ErrorCode::kInvalid,
                      "no request: give an object with \"code\", or with \"op\" (run, interrupt, cancel, input, reset, "
                      "checkpoint, rollback, drop, checkpoints, complete, inspect, is_complete, info)");
  Json answer = {{"ok", true}};
  if (op == "run") {
    auto input = ParseRun(request, language_);
    if (input) {
      EventLines events(out_, id);
      bool wants_events = request.contains("events") && request["events"] == true;
      auto result = co_await RunToEnd(std::move(*input), wants_events ? &events : nullptr, id);
      if (result) {
        status = Status{};
        answer = {{"result", session::JsonOf(*result)}};
      } else {
        status = std::unexpected(std::move(result.error()));
      }
    } else {
      status = std::unexpected(std::move(input.error()));
    }
  } else if (op == "interrupt" || op == "cancel") {
    // `run` is the id of the request that started it; without one the run that is on is meant.
    auto run = request.contains("run") ? Find(request["run"]) : session_.current();
    const bool stopped = run && run->Stop(op == "cancel" ? StopReason::kCancel : StopReason::kInterrupt);
    answer[op == "cancel" ? "cancelled" : "interrupted"] = stopped;
    status = Status{};
  } else if (op == "input") {
    std::optional<std::string> text;
    if (request.contains("text")) text = Text(request, "text");
    auto run = request.contains("run") ? Find(request["run"]) : session_.current();
    status = run ? run->Reply(std::move(text)) : Status(Err(ErrorCode::kInvalid, "nothing waits for input"));
  } else if (op == "reset") {
    status = co_await session_.Reset();
  } else if (op == "checkpoint") {
    status = co_await session_.SaveCheckpoint(Text(request, "name"));
  } else if (op == "rollback") {
    status = co_await session_.Rollback(Text(request, "name"));
  } else if (op == "drop") {
    status = co_await session_.DropCheckpoint(Text(request, "name"));
  } else if (op == "checkpoints") {
    answer = {{"checkpoints", session_.Checkpoints()}};
    status = Status{};
  } else if (op == "info") {
    const run::GuestUsage usage = co_await session_.MeasureUsage();
    answer = {{"executor", session_.isolation().executor},
              {"status", session_.is_busy() ? "running" : "idle"},
              {"capabilities", session_.Capabilities()},
              {"isolation", session::JsonOf(session_.isolation())},
              {"usage", session::JsonOf(usage)}};
    status = Status{};
  } else if (op == "complete" || op == "inspect" || op == "is_complete") {
    const CodeQuestion question = op == "complete"  ? CodeQuestion::kComplete
                                  : op == "inspect" ? CodeQuestion::kInspect
                                                    : CodeQuestion::kIsComplete;
    std::string code = Text(request, "code");
    size_t cursor = request.contains("cursor") && request["cursor"].is_number_unsigned()
                        ? request["cursor"].get<size_t>()
                        : code.size();
    auto reply = co_await session_.Ask(Text(request, "language", language_), question, code, cursor);
    if (reply) {
      answer = Json::parse(*reply);
      status = Status{};
    } else {
      status = std::unexpected(std::move(reply.error()));
    }
  }
  (void)co_await out_.Write(Line(id, status ? answer : ToJson(status.error())));
}

}  // namespace cella::cli
