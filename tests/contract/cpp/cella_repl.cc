// `cella repl --json` over the C++ library: the contract's way to libcella, from a process that is no Python. One JSON
// request a line on standard input, one answer a line on standard output (docs/sessions.md). For tests alone.
#include <cella/session.h>

#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace {

using Json = nlohmann::ordered_json;

std::mutex output_mutex;

void Write(const Json& answer) {
  const std::string line = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::scoped_lock lock(output_mutex);
  std::cout << line << std::flush;
}

Json JsonOf(const cella::MimeBundle& bundle) {
  Json mime = Json::object();
  for (const auto& [type, data] : bundle.data) mime[type] = data;
  return {{"mime", std::move(mime)}, {"metadata", Json::parse(bundle.metadata, nullptr, false)}};
}

Json JsonOf(const std::optional<cella::RunError>& error) {
  if (!error) return nullptr;
  return {{"name", error->name}, {"message", error->message}, {"traceback", error->traceback}};
}

Json JsonOf(const cella::Isolation& isolation) {
  Json limits = Json::object();
  for (const auto& [name, limit] : isolation.limits) limits[name] = {{"value", limit.value}, {"by", limit.by}};
  Json json = {{"executor", isolation.executor}, {"namespaces", isolation.namespaces}, {"seccomp", isolation.seccomp},
               {"network", isolation.network},   {"limits", std::move(limits)},        {"start", isolation.start}};
  return json;
}

Json JsonOf(const cella::RunResult& result) {
  const cella::Outcome& outcome = result.outcome;
  Json json = {{"id", result.id},
               {"session", result.session},
               {"status", cella::ToString(outcome.status)},
               {"exit_code", outcome.exit_code},
               {"signal", outcome.signal ? Json(*outcome.signal) : Json(nullptr)},
               {"stdout", result.stdout_text},
               {"stderr", result.stderr_text},
               {"value", result.value ? Json(*result.value) : Json(nullptr)},
               {"outputs", Json::array()},
               {"error", JsonOf(outcome.error)},
               {"files", Json::array()},
               {"truncated", {{"stdout", result.stdout_dropped}, {"stderr", result.stderr_dropped}}},
               {"usage",
                {{"wall_ms", outcome.usage.wall_ms},
                 {"cpu_ms", outcome.usage.cpu_ms},
                 {"peak_memory", outcome.usage.peak_memory}}},
               {"state", cella::ToString(result.state)},
               {"isolation", JsonOf(result.isolation)},
               {"checkpoint", result.checkpoint}};
  for (const cella::MimeBundle& output : result.outputs) json["outputs"].push_back(JsonOf(output));
  if (result.outputs_dropped > 0) json["truncated"]["outputs"] = result.outputs_dropped;
  for (const cella::FileChange& file : result.files) {
    json["files"].push_back({{"path", file.path}, {"size", file.size}, {"change", cella::ToString(file.kind)}});
  }
  return json;
}

// What the suite looks at.
Json JsonOf(const cella::Event& event) {
  if (std::holds_alternative<cella::StartedEvent>(event)) return {{"type", "started"}};
  if (const auto* output = std::get_if<cella::OutputEvent>(&event)) {
    return {{"type", cella::ToString(output->stream)}, {"text", output->bytes}};
  }
  if (const auto* input = std::get_if<cella::InputRequestEvent>(&event)) {
    return {{"type", "input_request"}, {"prompt", input->prompt}, {"password", input->password}};
  }
  return {{"type", "other"}};
}

Json JsonOf(const cella::Failure& failure) {
  constexpr const char* kCodes[] = {"invalid",   "not_found", "permission", "unsupported",
                                    "exhausted", "closed",    "internal"};
  return {{"error", {{"code", kCodes[static_cast<size_t>(failure.code)]}, {"message", failure.message}}}};
}

std::string FromBase64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string data;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    data.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return data;
}

cella::Variable VariableOf(const std::string& name, const Json& value) {
  using Kind = cella::Variable::Kind;
  if (value.is_string()) return {name, Kind::kText, value.get<std::string>()};
  const bool wrapped = value.is_object() && value.size() == 1;
  if (wrapped && value.contains("$bytes")) return {name, Kind::kBytes, FromBase64(value["$bytes"].get<std::string>())};
  return {name, Kind::kJson, wrapped && value.contains("$json") ? value["$json"].get<std::string>() : value.dump()};
}

class Conversation {
 public:
  explicit Conversation(cella::Session session) : session_(std::move(session)) {}
  ~Conversation() {
    for (std::thread& each : threads_) each.join();
  }

  void Take(const Json& request) {
    const Json id = request.value("id", Json());
    const std::string op = request.value("op", "run");
    if (op == "run") return Run(id, request);
    Json answer = {{"ok", true}};
    const auto settle = [&](const cella::Expected<void>& done) {
      if (!done) answer = JsonOf(done.error());
    };
    const std::string name = request.value("name", "");
    if (op == "interrupt" || op == "cancel") {
      const auto run = current();
      if (run && op == "interrupt") run->Interrupt();
      if (run && op == "cancel") run->Cancel();
    } else if (op == "input") {
      const auto run = current();
      std::optional<std::string> text;
      if (request.contains("text")) text = request["text"].get<std::string>();
      if (run) {
        settle(run->Reply(text));
      } else {
        answer = {{"error", {{"code", "invalid"}, {"message", "nothing waits for input"}}}};
      }
    } else if (op == "reset") {
      settle(session_.Reset());
    } else if (op == "checkpoint") {
      settle(session_.SaveCheckpoint(name));
    } else if (op == "rollback") {
      settle(session_.Rollback(name));
    } else if (op == "drop") {
      settle(session_.DropCheckpoint(name));
    } else if (op == "checkpoints") {
      auto names = session_.Checkpoints();
      answer = names ? Json{{"checkpoints", *names}} : JsonOf(names.error());
    }
    answer["id"] = id;
    Write(answer);
  }

 private:
  std::shared_ptr<cella::Run> current() {
    const std::scoped_lock lock(mutex_);
    return runs_.empty() ? nullptr : runs_.front();
  }

  void Run(const Json& id, const Json& request) {
    cella::RunSpec spec;
    spec.blocks.push_back({request.value("language", "python"), request.value("code", "")});
    if (request.contains("stdin")) spec.stdin_text = request["stdin"].get<std::string>();
    spec.answers_input = request.value("input", false);
    if (request.contains("timeout")) {
      const std::string text = request["timeout"].get<std::string>();
      const double number = std::stod(text);
      const bool milliseconds = text.ends_with("ms");
      spec.timeout = std::chrono::nanoseconds(static_cast<int64_t>(number * (milliseconds ? 1e6 : 1e9)));
    }
    if (request.contains("variables")) {
      for (const auto& [name, value] : request["variables"].items()) spec.variables.push_back(VariableOf(name, value));
    }
    auto started = session_.Start(spec);
    if (!started) {
      Json answer = JsonOf(started.error());
      answer["id"] = id;
      return Write(answer);
    }
    auto run = std::make_shared<cella::Run>(std::move(*started));
    {
      const std::scoped_lock lock(mutex_);
      runs_.push_back(run);
    }
    threads_.emplace_back([this, run, id, events = request.value("events", false)] { Follow(*run, id, events); });
  }

  void Follow(cella::Run& run, const Json& id, bool wants_events) {
    for (;;) {
      const auto event = run.Next();
      if (!event || !event->has_value()) break;
      if (wants_events) Write({{"id", id}, {"event", JsonOf(**event)}});
    }
    const auto result = run.Wait();
    {
      const std::scoped_lock lock(mutex_);
      runs_.remove_if([&](const auto& each) { return each.get() == &run; });
    }
    Json answer = result ? Json{{"result", JsonOf(*result)}} : JsonOf(result.error());
    answer["id"] = id;
    Write(answer);
  }

  cella::Session session_;
  std::mutex mutex_;
  std::list<std::shared_ptr<cella::Run>> runs_;  // that are on or wait
  std::list<std::thread> threads_;
};

// The options of `cella repl` that the contract uses, as a policy document.
Json PolicyOf(int argc, char** argv) {
  const std::map<std::string, const char*> limits = {{"--memory", "memory"},
                                                     {"--timeout", "timeout"},
                                                     {"--pids", "pids"},
                                                     {"--disk", "disk"},
                                                     {"--output-limit", "output"}};
  Json policy = Json::object();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "repl" || word == "--json" || i + 1 == argc) continue;
    const std::string value = argv[++i];
    if (const auto limit = limits.find(word); limit != limits.end()) {
      const bool counts = word == "--pids";
      policy["limits"][limit->second] = counts ? Json(std::stoi(value)) : Json(value);
    } else if (word == "--preload") {
      policy["preload"].push_back(value);
    } else {
      policy[word.substr(2)] = value;  // --executor, --python, --checkpoint
    }
  }
  return policy;
}

}  // namespace

int main(int argc, char** argv) {
  auto session = cella::Session::OpenDocument(PolicyOf(argc, argv).dump());
  if (!session) {
    std::cerr << "cella: " << session.error().message << '\n';
    return 126;
  }
  Conversation conversation(std::move(*session));
  for (std::string line; std::getline(std::cin, line);) conversation.Take(Json::parse(line));
  return 0;
}
