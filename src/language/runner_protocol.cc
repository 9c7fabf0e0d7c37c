#include "language/runner_protocol.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cella::language {
namespace {

using Json = nlohmann::json;

// Everybody who walks through such a value does so recursively, whoever reads our own output included.
bool NestsTooDeep(std::string_view text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// What is absent or of another type reads as empty.
std::string Text(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool Flag(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

int64_t Number(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

MimeBundle Bundle(const Json& json) {
  MimeBundle bundle;
  auto mime = json.find("mime");
  if (mime != json.end() && mime->is_object()) {
    for (const auto& [type, data] : mime->items()) {
      bundle.data.emplace_back(type, data.is_string() ? data.get<std::string>() : Dump(data));
    }
  }
  auto metadata = json.find("metadata");
  if (metadata != json.end() && metadata->is_object() && !metadata->empty()) bundle.metadata = Dump(*metadata);
  return bundle;
}

DoneFrame Done(const Json& json) {
  DoneFrame done;
  done.run = Text(json, "run");
  std::string status = Text(json, "status");
  done.status = status == "ok"            ? DoneFrame::Status::kOk
                : status == "exit"        ? DoneFrame::Status::kExit
                : status == "interrupted" ? DoneFrame::Status::kInterrupted
                                          : DoneFrame::Status::kError;
  // As the kernel would have it.
  done.exit_code = static_cast<int>(Number(json, "exit_code") & 0xff);
  done.displays_dropped = static_cast<uint64_t>(std::max<int64_t>(0, Number(json, "displays_dropped")));
  done.cpu_ms = static_cast<double>(std::max<int64_t>(0, Number(json, "cpu_us"))) / 1000;
  return done;
}

}  // namespace

std::string_view ToString(CheckpointMode mode) {
  switch (mode) {
    case CheckpointMode::kAuto: return "auto";
    case CheckpointMode::kAlways: return "always";
    case CheckpointMode::kOff: break;
  }
  return "off";
}

std::optional<CheckpointMode> ParseCheckpointMode(std::string_view text) {
  for (CheckpointMode mode : {CheckpointMode::kAuto, CheckpointMode::kAlways, CheckpointMode::kOff}) {
    if (text == ToString(mode)) return mode;
  }
  return std::nullopt;
}

std::string EncodeConfigure(const RunnerConfiguration& configuration) {
  Json env = Json::object();
  for (const auto& [name, value] : configuration.env) env[name] = value;
  return Dump({{"type", "configure"},
               {"env", std::move(env)},
               {"cwd", configuration.cwd},
               {"network", configuration.network},
               {"value_limit", configuration.value_limit}});
}

std::string EncodeRun(const RunnerCell& cell) {
  Json json = {{"type", "run"},     {"run", cell.run},     {"number", cell.number},
               {"code", cell.code}, {"input", cell.input}, {"checkpoint", ToString(cell.checkpoint)},
               {"file", nullptr},   {"stdin", nullptr}};
  if (!cell.file.empty()) json["file"] = cell.file;
  if (cell.stdin_text) json["stdin"] = *cell.stdin_text;
  if (cell.courtesy_ms != 0) json["courtesy_ms"] = cell.courtesy_ms;
  return Dump(json);
}

std::string EncodeRehearse() { return R"({"type":"rehearse"})"; }

std::string EncodeInterrupt(const std::string& run) { return Dump({{"type", "interrupt"}, {"run", run}}); }

std::string EncodeInputReply(const std::optional<std::string>& text) {
  return text ? Dump({{"type", "input_reply"}, {"text", *text}}) : R"({"type":"input_reply","eof":true})";
}

std::string EncodeCheckpoint(const std::string& name) {
  Json json = {{"type", "checkpoint"}, {"run", nullptr}, {"name", nullptr}};
  if (!name.empty()) json["name"] = name;
  return Dump(json);
}

std::string EncodeQuestion(Question question, std::string_view code, size_t cursor) {
  const char* type = question == Question::kComplete  ? "complete"
                     : question == Question::kInspect ? "inspect"
                                                      : "is_complete";
  return Dump({{"type", type}, {"code", code}, {"cursor", cursor}});
}

Result<RunnerFrame> DecodeFrame(std::string_view payload) {
  if (NestsTooDeep(payload)) return Err(ErrorCode::kInvalid, "a frame nested too deep");
  Json json = Json::parse(payload, nullptr, false);
  if (!json.is_object()) return Err(ErrorCode::kInvalid, "not a frame");
  std::string type = Text(json, "type");
  if (type == "done") return Done(json);
  if (type == "value") return ValueEvent{Text(json, "text"), Bundle(json)};
  if (type == "display") return DisplayEvent{Bundle(json), Text(json, "display_id"), Flag(json, "update")};
  if (type == "error") {
    return ErrorEvent{RunError{Text(json, "name"), Text(json, "message"), Text(json, "traceback")}};
  }
  if (type == "input_request") return InputRequestEvent{Text(json, "prompt"), Flag(json, "password")};
  if (type == "checkpoint") return CheckpointFrame{Text(json, "name"), Text(json, "status")};
  if (type == "completion" || type == "inspection" || type == "completeness") {
    // Only what an answer has: the rest of the line is ours.
    Json answer = {{"type", type}};
    for (const char* key : {"matches", "start", "end", "found", "text", "status"}) {
      if (json.contains(key)) answer[key] = std::move(json[key]);
    }
    return AnswerFrame{Dump(answer)};
  }
  return RunnerFrame{};
}

}  // namespace cella::language
