#include "server/run_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "policy/names.h"
#include "policy/read.h"
#include "server/json_input.h"
#include "session/variables.h"

namespace cella::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBlocks = 100;
constexpr size_t kMaxKey = 200;
constexpr std::string_view kIdPrefix = "run_";
constexpr size_t kLeastId = 16;
constexpr size_t kMaxId = 64;
constexpr size_t kMaxArgs = 1000;
constexpr size_t kMaxArgBytes = 100'000;
constexpr size_t kMaxPath = 4096;

Answer<std::string> Text(const Json& value, std::string_view key) {
  if (!value.is_string()) return MustBe(key, "a string", value);
  return value.get<std::string>();
}

Answer<bool> Switch(const Json& value, std::string_view key) {
  if (!value.is_boolean()) return MustBe(key, "true or false", value);
  return value.get<bool>();
}

Answer<Block> ReadBlock(const Json& value) {
  if (!value.is_object()) return Invalid("blocks: each is an object with 'code' and 'language'");
  Block block;
  bool has_code = false;
  for (const auto& [key, part] : value.items()) {
    if (key != "code" && key != "language") return Invalid("blocks: " + policy::UnknownKey(key, {"code", "language"}));
    auto text = Text(part, "blocks." + key);
    if (!text) return std::unexpected(std::move(text.error()));
    (key == "code" ? block.code : block.language) = std::move(*text);
    has_code = has_code || key == "code";
  }
  if (!has_code) return Invalid("blocks: each needs 'code'");
  return block;
}

class Reader {
 public:
  Reader(const Config& config, RunKind kind) : config_(config), kind_(kind) {}

  Answer<RunRequest> Read(const Json& body) {
    for (const auto& [key, value] : body.items()) {
      if (value.is_null()) continue;
      auto read = ReadKey(key, value);
      if (!read) return std::unexpected(std::move(read.error()));
    }
    if (code_ && !request_.run.blocks.empty()) return Invalid("either 'code' or 'blocks', not both");
    if (auto checked = CheckProgram(); !checked) return std::unexpected(std::move(checked.error()));
    if (code_) request_.run.blocks = {{language_.value_or(""), std::move(*code_)}};
    if (request_.run.blocks.empty()) return Invalid("a run needs 'code' (text) or 'blocks'");
    return std::move(request_);
  }

 private:
  Answer<void> ReadKey(const std::string& key, const Json& value) {
    static const std::vector<std::string_view> kOnlyOfSessions = {"id", "input", "wait", "idempotency_key",
                                                                  "variables"};
    if (kind_ != RunKind::kOfSession && std::ranges::find(kOnlyOfSessions, key) != kOnlyOfSessions.end()) {
      return Invalid(fmt::format("{}: only a run of a session has it", key));
    }
    static const std::vector<std::string_view> kKeys = {"id",
                                                        "code",
                                                        "language",
                                                        "blocks",
                                                        "as",
                                                        "file",
                                                        "args",
                                                        "cwd",
                                                        "timeout",
                                                        "stdin",
                                                        "input",
                                                        "wait",
                                                        "idempotency_key",
                                                        "cancel_on_disconnect",
                                                        "variables"};
    if (key == "code") return Take(Text(value, key), &code_);
    if (key == "language") return Take(Text(value, key), &language_);
    if (key == "stdin") return Take(Text(value, key), &request_.run.stdin_text);
    if (key == "input") return Take(Switch(value, key), &request_.run.answers_input);
    if (key == "wait") return Take(Switch(value, key), &request_.delivery.wait);
    if (key == "cancel_on_disconnect") return Take(Switch(value, key), &request_.delivery.cancel_on_disconnect);
    if (key == "timeout") return ReadTimeout(value);
    if (key == "as") return ReadAs(value);
    if (key == "file") return Take(Text(value, key), &request_.run.file);
    if (key == "cwd") return Take(Text(value, key), &request_.run.cwd);
    if (key == "args") return ReadArgs(value);
    if (key == "id") return ReadId(value);
    if (key == "blocks") return ReadBlocks(value);
    if (key == "variables") return ReadValues(value);
    if (key == "idempotency_key") {
      auto text = Text(value, key);
      if (text && (text->empty() || text->size() > kMaxKey)) {
        return Invalid(fmt::format("idempotency_key: 1 to {} bytes", kMaxKey));
      }
      return Take(std::move(text), &request_.delivery.idempotency_key);
    }
    return Invalid(policy::UnknownKey(key, kKeys));
  }

  Answer<void> ReadAs(const Json& value) {
    auto text = Text(value, "as");
    if (!text) return std::unexpected(std::move(text.error()));
    if (*text != "cell" && *text != "program")
      return Invalid(fmt::format("as: must be 'cell' or 'program', got '{}'", policy::Shown(*text)));
    request_.run.as = *text == "program" ? RunAs::kProgram : RunAs::kCell;
    as_ = std::move(*text);
    return {};
  }

  Answer<void> ReadArgs(const Json& value) {
    if (!value.is_array()) return MustBe("args", "a list of strings", value);
    if (value.size() > kMaxArgs) return Invalid(fmt::format("args: at most {}, got {}", kMaxArgs, value.size()));
    size_t bytes = 0;
    for (const Json& part : value) {
      if (!part.is_string()) return MustBe("args", "a list of strings", part);
      request_.run.args.push_back(part.get<std::string>());
      bytes += request_.run.args.back().size();
      if (bytes > kMaxArgBytes) return Invalid(fmt::format("args: at most {} bytes together", kMaxArgBytes));
    }
    return {};
  }

  Answer<void> ReadValues(const Json& value) {
    auto variables = session::ReadVariables(value);
    if (!variables) return Invalid(variables.error().message);
    if (Status checked = session::CheckVariables(*variables); !checked) return Invalid(checked.error().message);
    request_.run.variables = std::move(*variables);
    return {};
  }

  // What only a program has, and a file instead of code.
  Answer<void> CheckProgram() {
    RunSpec& run = request_.run;
    const bool program = kind_ == RunKind::kOneProgram || run.as == RunAs::kProgram;
    if (kind_ == RunKind::kOneProgram && as_ == "cell") return Invalid("as: a run without a session is a program");
    if (!program) {
      if (run.file.empty() && run.cwd.empty() && run.args.empty()) return {};
      return Invalid("file, args and cwd belong to a program: add \"as\": \"program\"");
    }
    run.as = RunAs::kProgram;
    if (run.blocks.size() > 1) return Invalid("blocks: one program is one block");
    for (const std::string* text : {&run.file, &run.cwd}) {
      if (text->contains('\0') || text->size() > kMaxPath) return Invalid("file, cwd: no such path");
    }
    if (!code_ && run.blocks.empty() && !run.file.empty()) {
      run.runs_file = true;
      code_.emplace();
    }
    return {};
  }

  template <typename T, typename U>
  static Answer<void> Take(Answer<T> value, U* to) {
    if (!value) return std::unexpected(std::move(value.error()));
    *to = std::move(*value);
    return {};
  }

  // It becomes part of a file's name.
  Answer<void> ReadId(const Json& value) {
    auto text = Text(value, "id");
    if (!text) return std::unexpected(std::move(text.error()));
    std::string_view rest = *text;
    const bool prefixed = rest.starts_with(kIdPrefix);
    if (prefixed) rest.remove_prefix(kIdPrefix.size());
    auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
    if (!prefixed || rest.size() < kLeastId || rest.size() > kMaxId || !std::ranges::all_of(rest, fits)) {
      return Invalid(fmt::format("id: 'run_' and {} to {} letters and digits", kLeastId, kMaxId));
    }
    request_.run.id = std::move(*text);
    return {};
  }

  Answer<void> ReadTimeout(const Json& value) {
    auto timeout = policy::ReadDuration(policy::ToScalar(value));
    if (!timeout) return Invalid("timeout: " + timeout.error().message);
    const auto most = config_.maxima.policy.limits.timeout.value;
    if (*timeout > most) {
      return Forbidden(fmt::format("timeout: {} is more than this server allows", FormatDuration(*timeout)),
                       "at most " + FormatDuration(most));
    }
    request_.run.timeout = *timeout;
    return {};
  }

  Answer<void> ReadBlocks(const Json& value) {
    if (!value.is_array()) return MustBe("blocks", "a list", value);
    if (value.empty() || value.size() > kMaxBlocks) {
      return Invalid(fmt::format("blocks: must be 1 to {}, got {}", kMaxBlocks, value.size()));
    }
    for (const Json& part : value) {
      auto block = ReadBlock(part);
      if (!block) return std::unexpected(std::move(block.error()));
      request_.run.blocks.push_back(std::move(*block));
    }
    return {};
  }

  const Config& config_;
  RunRequest request_;
  const RunKind kind_;
  std::optional<std::string> code_, language_;
  std::string as_;
};

}  // namespace

Answer<RunRequest> ReadRunRequest(const Json& body, const Config& config, RunKind kind) {
  return Reader(config, kind).Read(body);
}

}  // namespace cella::server
