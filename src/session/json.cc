#include "session/json.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "session/json_value.h"
#include "workspace/media_type.h"

namespace cella::session {
namespace {

// Keys keep the order in which the documentation lists them.
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // Guests choose file names and the like: anything that is not UTF-8 is replaced, never thrown about.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Number(double value) {
  // 1073741824, not 1073741824.0
  auto whole = static_cast<int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return value;
}

}  // namespace

Json JsonOf(const Isolation& isolation) {
  Json limits = Json::object();
  for (const auto& [name, limit] : isolation.limits) {
    limits[name] = {{"value", Number(limit.value)}, {"by", limit.by}};
    if (!limit.during.empty()) limits[name]["during"] = limit.during;
  }
  Json json;
  json["executor"] = isolation.executor;
  json["namespaces"] = isolation.namespaces;
  json["seccomp"] = isolation.seccomp;
  json["landlock"] = isolation.landlock;
  json["cgroup"] = isolation.cgroup;
  json["network"] = isolation.network;
  json["proc"] = isolation.proc;
  json["limits"] = std::move(limits);
  if (!isolation.unenforced.empty()) json["unenforced"] = isolation.unenforced;
  for (const auto& [name, value] : isolation.details) json[name] = value;
  if (!isolation.start.empty()) json["start"] = isolation.start;
  return json;
}

namespace {

Json ToJsonValue(const std::optional<RunError>& error) {
  if (!error) return nullptr;
  return Json{{"name", error->name}, {"message", error->message}, {"traceback", error->traceback}};
}

Json ToJsonValue(const MimeBundle& bundle) {
  Json mime = Json::object();
  for (const auto& [type, data] : bundle.data) mime[type] = data;
  Json metadata = Json::parse(bundle.metadata, nullptr, false);
  Json json{{"mime", std::move(mime)}, {"metadata", metadata.is_object() ? std::move(metadata) : Json::object()}};
  for (const auto& [type, bytes] : bundle.left_out) json["left_out"][type] = bytes;
  return json;
}

Json ItemsOf(const RunResult& result) {
  Json items = Json::array();
  for (const ResultItem& item : result.items) {
    if (item.kind == ResultItem::Kind::kOutput) {
      items.push_back({{"output", item.begin}});
      continue;
    }
    const bool out = item.kind == ResultItem::Kind::kStdout;
    const std::string_view text = out ? result.stdout_text : result.stderr_text;
    items.push_back({{"stream", ToString(out ? Stream::kStdout : Stream::kStderr)},
                     {"text", text.substr(item.begin, item.end - item.begin)}});
  }
  return items;
}

double Rounded(double milliseconds) { return static_cast<double>(static_cast<int64_t>(milliseconds * 1000)) / 1000; }

Json ToJsonValue(const Usage& usage) {
  return Json{
      {"wall_ms", Rounded(usage.wall_ms)}, {"cpu_ms", Rounded(usage.cpu_ms)}, {"peak_memory", usage.peak_memory}};
}

Json ToJsonValue(const FileChange& file) {
  Json json{{"path", file.path},
            {"size", file.size},
            {"change", ToString(file.kind)},
            {"media_type", workspace::MediaTypeOf(file.path)}};
  if (!file.not_copied.empty()) json["not_copied"] = file.not_copied;
  return json;
}

void AddOutcome(Json& json, const Outcome& outcome) {
  json["status"] = ToString(outcome.status);
  json["exit_code"] = outcome.exit_code;
  json["signal"] = outcome.signal ? Json(*outcome.signal) : Json(nullptr);
}

}  // namespace

Json JsonOf(const run::GuestUsage& usage) {
  Json json = {{"alive", usage.alive}, {"memory", nullptr}, {"cpu_ms", nullptr}, {"processes", nullptr}};
  if (usage.memory) json["memory"] = *usage.memory;
  if (usage.cpu) json["cpu_ms"] = Rounded(std::chrono::duration<double, std::milli>(*usage.cpu).count());
  if (usage.processes) json["processes"] = *usage.processes;
  return json;
}

std::string ToJson(const RunResult& result) { return Dump(JsonOf(result)); }

Json JsonOf(const RunResult& result) {
  Json json;
  json["id"] = result.id;
  json["session"] = result.session.empty() ? Json(nullptr) : Json(result.session);
  AddOutcome(json, result.outcome);
  json["stdout"] = result.stdout_text;
  json["stderr"] = result.stderr_text;
  json["value"] = result.value ? Json(*result.value) : Json(nullptr);
  json["outputs"] = Json::array();
  for (const MimeBundle& output : result.outputs) json["outputs"].push_back(ToJsonValue(output));
  if (!result.items.empty()) json["items"] = ItemsOf(result);
  json["error"] = ToJsonValue(result.outcome.error);
  json["files"] = Json::array();
  for (const FileChange& file : result.files) json["files"].push_back(ToJsonValue(file));
  if (!result.files_complete) json["files_complete"] = false;
  json["truncated"] = {{"stdout", result.stdout_dropped}, {"stderr", result.stderr_dropped}};
  if (result.outputs_dropped > 0) json["truncated"]["outputs"] = result.outputs_dropped;
  json["usage"] = ToJsonValue(result.outcome.usage);
  json["state"] = ToString(result.state);
  json["isolation"] = result.isolation.executor.empty() ? Json(nullptr) : JsonOf(result.isolation);
  json["checkpoint"] = result.checkpoint;
  return json;
}

std::string EventEncoder::Encode(const Event& event) {
  Json json;
  json["n"] = number_;
  auto render = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, StartedEvent>) {
      json["type"] = "started";
      json["run"] = run_id_;
      json["language"] = value.language;
      json["isolation"] = JsonOf(value.isolation);
    } else if constexpr (std::is_same_v<T, OutputEvent>) {
      std::string& pending = pending_[value.stream == Stream::kStdout ? 0 : 1];
      std::string bytes = std::exchange(pending, {}) + value.bytes;
      size_t tail = IncompleteUtf8Tail(bytes);
      pending = bytes.substr(bytes.size() - tail);
      bytes.resize(bytes.size() - tail);
      json["type"] = ToString(value.stream);
      json["text"] = ToUtf8Lossy(bytes);
      return !bytes.empty();
    } else if constexpr (std::is_same_v<T, TruncatedEvent>) {
      json["type"] = "truncated";
      json["stream"] = ToString(value.stream);
      json["dropped"] = value.dropped;
    } else if constexpr (std::is_same_v<T, ValueEvent>) {
      json["type"] = "value";
      json["text"] = value.text;
      json.update(ToJsonValue(value.bundle));
    } else if constexpr (std::is_same_v<T, DisplayEvent>) {
      json["type"] = "display";
      json.update(ToJsonValue(value.bundle));
      json["display_id"] = value.display_id.empty() ? Json(nullptr) : Json(value.display_id);
      json["update"] = value.update;
      if (value.clear) json["clear"] = true;
    } else if constexpr (std::is_same_v<T, ErrorEvent>) {
      json["type"] = "error";
      json.update(ToJsonValue(std::optional(value.error)));
    } else if constexpr (std::is_same_v<T, InputRequestEvent>) {
      json["type"] = "input_request";
      json["prompt"] = value.prompt;
      json["password"] = value.password;
    } else if constexpr (std::is_same_v<T, FileEvent>) {
      json["type"] = "file";
      json.update(ToJsonValue(value.change));
    } else if constexpr (std::is_same_v<T, FilesIncompleteEvent>) {
      json["type"] = "file";
      json["files_complete"] = false;
    } else if constexpr (std::is_same_v<T, ProgressEvent>) {
      json["type"] = "progress";
      json["text"] = ToUtf8Lossy(value.text);
    } else if constexpr (std::is_same_v<T, ToolEvent>) {
      json["type"] = "tool";
      json["namespace"] = value.space;
      json["name"] = value.name;
      json["status"] = value.status;
      json["wall_ms"] = Rounded(value.wall_ms);
    } else {
      json["type"] = "finished";
      AddOutcome(json, value.outcome);
      json["error"] = ToJsonValue(value.outcome.error);
      json["usage"] = ToJsonValue(value.outcome.usage);
      json["state"] = ToString(value.state);
      json["checkpoint"] = value.checkpoint;
    }
    return true;
  };
  if (!std::visit(render, event)) return {};
  ++number_;
  return Dump(json);
}

EventHead HeadOf(std::string_view line) {
  constexpr std::string_view kNumber = "{\"n\":";
  constexpr std::string_view kType = ",\"type\":\"";
  if (!line.starts_with(kNumber)) return {};
  line.remove_prefix(kNumber.size());
  const size_t comma = line.find(kType);
  if (comma == std::string_view::npos) return {};
  const std::string_view rest = line.substr(comma + kType.size());
  return {line.substr(0, comma), rest.substr(0, rest.find('"'))};
}

std::string EventEncoder::Flush(Stream stream) {
  std::string& pending = pending_[stream == Stream::kStdout ? 0 : 1];
  if (pending.empty()) return {};
  Json json;
  json["n"] = number_++;
  json["type"] = ToString(stream);
  json["text"] = ToUtf8Lossy(std::exchange(pending, {}));
  return Dump(json);
}

}  // namespace cella::session
