#include "server/config_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "os/named_file.h"
#include "policy/names.h"
#include "policy/read.h"
#include "policy/scalar.h"
#include "server/config_keys.h"
#include "server/listen_address.h"

namespace cella::server {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 20;

policy::Scalar ToScalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return std::string_view(text->get());
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* yes = node.as_boolean()) return yes->get();
  return std::monostate();
}

Result<std::string> ToText(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return Err(ErrorCode::kInvalid, "must be text in quotes");
  if (text->get().contains('\0')) return Err(ErrorCode::kInvalid, "contains a NUL byte");
  return text->get();
}

Result<std::vector<std::string>> ToTexts(const toml::node& node) {
  const auto* list = node.as_array();
  if (list == nullptr) return Err(ErrorCode::kInvalid, "must be a list of texts, as [\"a\", \"b\"]");
  std::vector<std::string> texts;
  for (const toml::node& each : *list) {
    auto text = ToText(each);
    if (!text) return Err(ErrorCode::kInvalid, "must be a list of texts, as [\"a\", \"b\"]");
    texts.push_back(std::move(*text));
  }
  return texts;
}

Status CheckPath(const std::string& path) {
  // A relative path is ambiguous: it could mean the file's directory, the server's or the caller's.
  if (path.starts_with('/')) return {};
  return Err(ErrorCode::kInvalid, "'{}' must be an absolute path", policy::Shown(path));
}

// For the parser of policies. What JSON does not have (a date) becomes null, which no key accepts.
nlohmann::json ToJson(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [name, value] : *table) object[std::string(name.str())] = ToJson(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    nlohmann::json list = nlohmann::json::array();
    for (const toml::node& each : *array) list.push_back(ToJson(each));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  return nullptr;
}

// Sets one field; the variant of the field and the kind of the key fit together by the table (its test goes over all).
struct Setter {
  const ConfigKey& key;
  const toml::node& node;
  Config& config;

  Status operator()(At<std::string> at) const {
    TRY(*at(config), ToText(node));
    if (key.kind == KeyKind::kPath) return CheckPath(*at(config));
    return {};
  }

  Status operator()(At<std::vector<std::string>> at) const {
    TRY(std::vector<std::string> texts, ToTexts(node));
    for (const std::string& text : texts) {
      if (key.kind == KeyKind::kPaths) TRY_VOID(CheckPath(text));
      if (key.kind == KeyKind::kAddresses) {
        if (auto address = ParseListenAddress(text); !address) return std::unexpected(std::move(address.error()));
      }
    }
    *at(config) = std::move(texts);
    return {};
  }

  Status operator()(At<bool> at) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) return Err(ErrorCode::kInvalid, "must be true or false");
    *at(config) = value->get();
    return {};
  }

  Result<uint64_t> Number() const {
    policy::Scalar value = ToScalar(node);
    if (key.kind == KeyKind::kSize) return policy::ReadSize(value);
    return key.kind == KeyKind::kCountOrZero ? policy::ReadCountOrZero(value) : policy::ReadCount(value);
  }

  Status operator()(At<uint64_t> at) const {
    TRY(*at(config), Number());
    return {};
  }
  Status operator()(At<std::optional<uint64_t>> at) const {
    TRY(*at(config), Number());
    return {};
  }
  Status operator()(At<std::chrono::nanoseconds> at) const {
    TRY(*at(config), policy::ReadDuration(ToScalar(node)));
    return {};
  }
  Status operator()(At<std::optional<double>> at) const {
    TRY(*at(config), policy::ReadRate(ToScalar(node)));
    return {};
  }

  Status operator()(const PolicyField& field) const {
    auto set = policy::Set(*field.key, ToJson(node), &(config.*field.spec));
    if (!set) return Err(ErrorCode::kInvalid, "{}", set.error().Text());
    return {};
  }

  Status operator()(const WordField& field) const {
    std::vector<std::string> words;
    if (key.kind == KeyKind::kWords) {
      TRY(words, ToTexts(node));
    } else {
      TRY(std::string word, ToText(node));
      words.push_back(std::move(word));
    }
    if (field.set(config, words)) return {};
    return Err(ErrorCode::kInvalid, "'{}' is none of {}", policy::Shown(fmt::format("{}", fmt::join(words, ", "))),
               key.note);
  }
};

class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<Config> Read(const toml::table& root) {
    for (const auto& [name, node] : root) {
      if (!IsSection(name.str())) return Unknown(name, KnownIn(""));
      const auto* table = node.as_table();
      if (table == nullptr) {
        return Bad(node.source(), "'{}' is a section: write [{}] on a line of its own", name.str(), name.str());
      }
      TRY_VOID(Section(name.str(), *table));
    }
    // Behind [quota], whose values they start from.
    if (const auto* quota = root["quota"].as_table()) TRY_VOID(ClientQuotas(*quota));
    return std::move(config_);
  }

 private:
  static bool IsSection(std::string_view name) {
    return std::ranges::find(ConfigSections(), name, &ConfigSection::name) != ConfigSections().end();
  }

  static const ConfigKey* FindKey(std::string_view section, std::string_view name) {
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.section == section && key.name == name) return &key;
    }
    return nullptr;
  }

  // Keys and sub-sections of a section; of the whole file for "".
  static std::vector<std::string_view> KnownIn(std::string_view section) {
    std::vector<std::string_view> known;
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.section == section) known.push_back(key.name);
    }
    for (const ConfigSection& each : ConfigSections()) {
      size_t dot = each.name.find('.');
      if (section.empty() ? dot == std::string_view::npos
                          : each.name.substr(0, dot) == section && dot < each.name.size()) {
        known.push_back(section.empty() ? each.name : each.name.substr(dot + 1));
      }
    }
    return known;
  }

  Status Section(std::string_view section, const toml::table& table) {
    for (const auto& [name, node] : table) {
      std::string below = fmt::format("{}.{}", section, name.str());
      if (IsSection(below)) {
        const auto* inner = node.as_table();
        if (inner == nullptr) return Bad(node.source(), "'{}' is a section: write [{}]", name.str(), below);
        TRY_VOID(Section(below, *inner));
        continue;
      }
      if (section == "quota" && node.is_table()) continue;  // a client
      const ConfigKey* key = FindKey(section, name.str());
      if (key == nullptr) return Unknown(name, KnownIn(section));
      TRY_VOID(Set(*key, node, config_));
    }
    return {};
  }

  Status ClientQuotas(const toml::table& quota) {
    for (const auto& [client, node] : quota) {
      const auto* table = node.as_table();
      if (table == nullptr) continue;
      if (!policy::IsName(client.str())) {
        return Bad(client.source(), "[quota.{}]: a client's name has letters, digits, '.', '_' and '-', 64 at most",
                   policy::Shown(client.str()));
      }
      Config scratch;
      scratch.quota = config_.quota;
      for (const auto& [name, value] : *table) {
        const ConfigKey* key = FindKey("quota", name.str());
        if (key == nullptr) return Unknown(name, KnownIn("quota"));
        TRY_VOID(Set(*key, value, scratch));
      }
      config_.client_quotas.emplace(client.str(), scratch.quota);
    }
    return {};
  }

  Status Set(const ConfigKey& key, const toml::node& node, Config& config) const {
    Status set = std::visit(Setter{key, node, config}, key.field);
    if (!set) return Bad(node.source(), "{}.{}: {}", key.section, key.name, set.error().message);
    return {};
  }

  std::unexpected<Error> Unknown(const toml::key& key, const std::vector<std::string_view>& known) const {
    return Bad(key.source(), "{}", policy::UnknownKey(key.str(), known));
  }

  template <typename... Args>
  std::unexpected<Error> Bad(const toml::source_region& where, fmt::format_string<Args...> format,
                             Args&&... args) const {
    return Err(ErrorCode::kInvalid, "{}:{}:{}: {}", origin_, where.begin.line, where.begin.column,
               fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view origin_;
  Config config_;
};

}  // namespace

Result<Config> ParseConfig(std::string_view text, std::string_view origin) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Err(ErrorCode::kInvalid, "{}:{}:{}: {}", origin, error.source().begin.line, error.source().begin.column,
               error.description());
  }
  return Reader(origin).Read(parsed.table());
}

Result<Config> ReadConfig(const std::string& path) {
  auto text = os::ReadNamedFile(path, kMaxFile);
  if (!text) return std::unexpected(std::move(text.error()).WithContext("the configuration"));
  return ParseConfig(*text, path);
}

}  // namespace cella::server
