#include "server/run_request.h"

#include <nlohmann/json.hpp>

#include "server/json_input.h"
#include "server/names.h"

namespace cella::server {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBlocks = 100;
constexpr size_t kMaxKey = 200;

Answer<std::string> Text(const Json& value, std::string_view key) {
  if (!value.is_string()) return Invalid(fmt::format("{}: text is expected", key));
  return value.get<std::string>();
}

Answer<bool> Switch(const Json& value, std::string_view key) {
  if (!value.is_boolean()) return Invalid(fmt::format("{}: true or false is expected", key));
  return value.get<bool>();
}

Answer<language::Block> ReadBlock(const Json& value) {
  if (!value.is_object()) return Invalid("blocks: each is an object with 'code' and 'language'");
  language::Block block;
  bool has_code = false;
  for (const auto& [key, part] : value.items()) {
    if (key != "code" && key != "language") return Invalid("blocks: " + UnknownKey(key, {"code", "language"}));
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
  explicit Reader(const Config& config) : config_(config) {}

  Answer<RunWish> Read(const Json& body) {
    for (const auto& [key, value] : body.items()) {
      if (value.is_null()) continue;
      auto read = ReadKey(key, value);
      if (!read) return std::unexpected(std::move(read.error()));
    }
    if (code_ && !wish_.blocks.empty()) return Invalid("either 'code' or 'blocks', not both");
    if (code_) wish_.blocks = {{language_.value_or(""), std::move(*code_)}};
    if (wish_.blocks.empty()) return Invalid("a run needs 'code' (text) or 'blocks'");
    return std::move(wish_);
  }

 private:
  Answer<void> ReadKey(const std::string& key, const Json& value) {
    static const std::vector<std::string_view> kKeys = {
        "code", "language", "blocks", "timeout", "stdin", "input", "wait", "idempotency_key", "cancel_on_disconnect"};
    if (key == "code") return Take(Text(value, key), &code_);
    if (key == "language") return Take(Text(value, key), &language_);
    if (key == "stdin") return Take(Text(value, key), &wish_.stdin_text);
    if (key == "input") return Take(Switch(value, key), &wish_.answers_input);
    if (key == "wait") return Take(Switch(value, key), &wish_.wait);
    if (key == "cancel_on_disconnect") return Take(Switch(value, key), &wish_.cancel_on_disconnect);
    if (key == "timeout") return ReadTimeout(value);
    if (key == "blocks") return ReadBlocks(value);
    if (key == "idempotency_key") {
      auto text = Text(value, key);
      if (text && (text->empty() || text->size() > kMaxKey)) {
        return Invalid(fmt::format("idempotency_key: 1 to {} bytes", kMaxKey));
      }
      return Take(std::move(text), &wish_.idempotency_key);
    }
    return Invalid(UnknownKey(key, kKeys));
  }

  template <typename T, typename U>
  static Answer<void> Take(Answer<T> value, U* to) {
    if (!value) return std::unexpected(std::move(value.error()));
    *to = std::move(*value);
    return {};
  }

  Answer<void> ReadTimeout(const Json& value) {
    auto timeout = ReadDuration(ToScalar(value));
    if (!timeout) return Invalid("timeout: " + timeout.error().message);
    if (*timeout > config_.maxima.timeout) return Forbidden("timeout: more than this server allows");
    wish_.timeout = *timeout;
    return {};
  }

  Answer<void> ReadBlocks(const Json& value) {
    if (!value.is_array() || value.empty() || value.size() > kMaxBlocks) {
      return Invalid(fmt::format("blocks: a list of 1 to {} is expected", kMaxBlocks));
    }
    for (const Json& part : value) {
      auto block = ReadBlock(part);
      if (!block) return std::unexpected(std::move(block.error()));
      wish_.blocks.push_back(std::move(*block));
    }
    return {};
  }

  const Config& config_;
  RunWish wish_;
  std::optional<std::string> code_, language_;
};

}  // namespace

Answer<RunWish> ReadRunWish(const Json& body, const Config& config) { return Reader(config).Read(body); }

}  // namespace cella::server
