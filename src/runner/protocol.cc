#include "runner/protocol.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace cella::runner {
namespace {

using Json = nlohmann::json;

// Runners send the data of a representation as text, so a frame has few values, however long it is. The depth is also
// that of our own output, which its readers walk through recursively.
constexpr JsonLimits kFrame = {.bytes = kMaxFrameFromRunner, .depth = 64, .nodes = 20'000};
// What follows costs a multiple of each of these.
constexpr size_t kMaxTypes = 64;
constexpr size_t kMaxMetadata = 1000;

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

size_t CountNodes(const Json& json) {
  size_t count = 1;
  if (json.is_structured()) {
    for (const Json& part : json) count += CountNodes(part);
  }
  return count;
}

// Runners keep to the bounds, and name in the text what they left out. Of other senders the text alone is taken.
MimeBundle Bundle(Json& json) {
  MimeBundle bundle;
  auto mime = json.find("mime");
  if (mime != json.end() && mime->is_object()) {
    for (const auto& [type, data] : mime->items()) {
      if (mime->size() > kMaxTypes && type != "text/plain") continue;
      bundle.data.emplace_back(type, data.is_string() ? std::move(data.get_ref<std::string&>()) : Dump(data));
    }
  }
  auto metadata = json.find("metadata");
  const bool takes = metadata != json.end() && metadata->is_object() && !metadata->empty();
  if (takes && CountNodes(*metadata) <= kMaxMetadata) bundle.metadata = Dump(*metadata);
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
  done.lost = Flag(json, "lost");
  done.cpu_ms = static_cast<double>(std::max<int64_t>(0, Number(json, "cpu_us"))) / 1000;
  return done;
}

}  // namespace

std::string EncodeConfigure(const Configuration& configuration) {
  Json env = Json::object();
  for (const auto& [name, value] : configuration.env) env[name] = value;
  Json json = {{"type", "configure"},
               {"env", std::move(env)},
               {"cwd", configuration.cwd},
               {"network", configuration.network},
               {"value_limit", configuration.value_limit}};
  if (configuration.output_limit != 0) json["output_limit"] = configuration.output_limit;
  if (configuration.assignments) json["assignments"] = true;
  if (!configuration.spaces.empty()) json["spaces"] = configuration.spaces;
  return Dump(json);
}

std::string EncodeProgram(const Program& program) {
  Json env = Json::object();
  for (const auto& [name, value] : program.env) env[name] = value;
  Json json = {{"type", "program"}, {"argv", program.argv}, {"env", std::move(env)}, {"cwd", program.cwd}};
  if (!program.spaces.empty()) json["spaces"] = program.spaces;
  return Dump(json);
}

std::string_view WordOf(Variable::Kind kind) {
  return kind == Variable::Kind::kText ? "text" : kind == Variable::Kind::kBytes ? "bytes" : "json";
}

std::string EncodeRun(const Cell& cell) {
  Json json = {{"type", "run"},     {"run", cell.run},     {"number", cell.number},
               {"code", cell.code}, {"input", cell.input}, {"checkpoint", ToString(cell.checkpoint)},
               {"file", nullptr},   {"stdin", nullptr}};
  if (!cell.file.empty()) json["file"] = cell.file;
  if (cell.stdin_text) json["stdin"] = *cell.stdin_text;
  for (const Value& value : cell.variables) {
    if (cell.texts) {
      json[value.file.empty() ? "texts" : "text_files"][value.name] = value.file.empty() ? value.data : value.file;
      continue;
    }
    Json one = {{"name", value.name}, {"kind", WordOf(value.kind)}};
    one[value.file.empty() ? "data" : "file"] = value.file.empty() ? value.data : value.file;
    json["variables"].push_back(std::move(one));
  }
  if (!cell.packages.empty()) json["packages"] = cell.packages;
  if (!cell.mark.empty()) json["mark"] = cell.mark;
  if (cell.courtesy_ms != 0) json["courtesy_ms"] = cell.courtesy_ms;
  return Dump(json);
}

std::string EncodeRehearse() { return R"({"type":"rehearse"})"; }

std::string EncodeInterrupt(const std::string& run) { return Dump({{"type", "interrupt"}, {"run", run}}); }

std::string EncodeCancel(const std::string& run) { return Dump({{"type", "cancel"}, {"run", run}}); }

std::string EncodeInputReply(const std::optional<std::string>& text) {
  return text ? Dump({{"type", "input_reply"}, {"text", *text}}) : R"({"type":"input_reply","eof":true})";
}

std::string EncodeCheckpoint(const std::string& name) {
  Json json = {{"type", "checkpoint"}, {"run", nullptr}, {"name", nullptr}};
  if (!name.empty()) json["name"] = name;
  return Dump(json);
}

std::string EncodeQuestion(CodeQuestion question, std::string_view code, size_t cursor) {
  const char* type = question == CodeQuestion::kComplete  ? "complete"
                     : question == CodeQuestion::kInspect ? "inspect"
                                                          : "is_complete";
  return Dump({{"type", type}, {"code", code}, {"cursor", cursor}});
}

Result<Frame> DecodeFrame(std::string_view payload) {
  auto read = ReadJson(payload, kFrame);
  if (!read) return Err(ErrorCode::kInvalid, "not a frame: {}", read.error().message);
  Json& json = *read;
  if (!json.is_object()) return Err(ErrorCode::kInvalid, "not a frame");
  std::string type = Text(json, "type");
  if (type == "done") return Done(json);
  if (type == "value") return ValueEvent{Text(json, "text"), Bundle(json)};
  if (type == "display") {
    const auto mark = static_cast<uint64_t>(std::max<int64_t>(0, Number(json, "mark")));
    return DisplayFrame{{Bundle(json), Text(json, "display_id"), Flag(json, "update")}, mark};
  }
  if (type == "error") {
    return ErrorEvent{RunError{Text(json, "name"), Text(json, "message"), Text(json, "traceback")}};
  }
  if (type == "stdout") return OutputEvent{Stream::kStdout, Text(json, "text")};
  if (type == "stderr") return OutputEvent{Stream::kStderr, Text(json, "text")};
  if (type == "truncated") {
    const Stream stream = Text(json, "stream") == "stderr" ? Stream::kStderr : Stream::kStdout;
    return TruncatedEvent{stream, static_cast<uint64_t>(std::max<int64_t>(0, Number(json, "dropped")))};
  }
  if (type == "input_request") return InputRequestEvent{Text(json, "prompt"), Flag(json, "password")};
  if (type == "checkpoint") return CheckpointFrame{Text(json, "name"), Text(json, "status")};
  if (type == "refused") return RefusedFrame{Text(json, "path"), static_cast<int>(Number(json, "errno"))};
  if (type == "completion" || type == "inspection" || type == "completeness") {
    // Only what an answer has: the rest of the line is ours.
    Json answer = {{"type", type}};
    for (const char* key : {"matches", "start", "end", "found", "text", "status"}) {
      if (json.contains(key)) answer[key] = std::move(json[key]);
    }
    return AnswerFrame{Dump(answer)};
  }
  return Frame{};
}

}  // namespace cella::runner
