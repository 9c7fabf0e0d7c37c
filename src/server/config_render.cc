#include "server/config_render.h"

#include "base/units.h"
#include "policy/describe.h"
#include "server/config_keys.h"

namespace cella::server {
namespace {

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string QuoteAll(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + Quote(text);
  return "[" + list + "]";
}

// The unit that says it shortest without loss.
std::string ExactSize(uint64_t bytes) {
  std::string text = FormatByteSize(bytes);
  auto again = ParseByteSize(text);
  return again && *again == bytes ? Quote(text) : fmt::format("{}", bytes);
}

std::string ExactDuration(Nanoseconds duration) {
  constexpr std::pair<int64_t, char> kUnits[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  int64_t milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  for (auto [seconds, letter] : kUnits) {
    if (milliseconds % (seconds * 1000) == 0)
      return Quote(fmt::format("{}{}", milliseconds / (seconds * 1000), letter));
  }
  return Quote(fmt::format("{}ms", milliseconds));
}

// The same of a key of a session.
struct PolicyWriter {
  const policy::Key& key;

  std::string operator()(const std::string& text) const { return text.empty() ? "" : Quote(text); }
  std::string operator()(std::string_view word) const { return Quote(word); }
  std::string operator()(bool on) const { return on ? "true" : "false"; }
  std::string operator()(Nanoseconds time) const { return ExactDuration(time); }
  std::string operator()(const Limit<Nanoseconds>& limit) const { return ExactDuration(limit.value); }
  std::string operator()(const Limit<uint64_t>& limit) const {
    return key.kind == policy::Kind::kSize ? ExactSize(limit.value) : fmt::format("{}", limit.value);
  }
  std::string operator()(const std::optional<double>& share) const { return share ? fmt::format("{}", *share) : ""; }
  std::string operator()(const std::vector<std::string>& texts) const { return QuoteAll(texts); }
  // Values of variables may be secrets.
  std::string operator()(const policy::Variables& variables) const {
    std::string list;
    for (const auto& [name, value] : variables) list += fmt::format("{}{} = \"…\"", list.empty() ? "" : ", ", name);
    return list.empty() ? "{}" : "{ " + list + " }";
  }
  std::string operator()(const auto&) const { return ""; }  // not in the file
};

// As it is written in the file; empty: it is not set.
struct Writer {
  const ConfigKey& key;
  Config& config;

  std::string operator()(At<std::string> at) const { return at(config)->empty() ? "" : Quote(*at(config)); }
  std::string operator()(At<std::vector<std::string>> at) const { return QuoteAll(*at(config)); }
  std::string operator()(At<bool> at) const { return *at(config) ? "true" : "false"; }
  std::string Number(uint64_t value) const {
    return key.kind == KeyKind::kSize ? ExactSize(value) : fmt::format("{}", value);
  }
  std::string operator()(At<uint64_t> at) const { return Number(*at(config)); }
  std::string operator()(At<std::optional<uint64_t>> at) const { return *at(config) ? Number(**at(config)) : ""; }
  std::string operator()(At<std::chrono::nanoseconds> at) const { return ExactDuration(*at(config)); }
  std::string operator()(At<std::optional<double>> at) const {
    return *at(config) ? fmt::format("{}", **at(config)) : "";
  }
  std::string operator()(const PolicyField& field) const {
    return policy::WithValue(*field.key, config.*field.spec, PolicyWriter{*field.key});
  }
  std::string operator()(const WordField& field) const {
    std::vector<std::string> words = field.get(config);
    return key.kind == KeyKind::kWords ? QuoteAll(words) : Quote(words.at(0));
  }
};

std::string ValueOf(const ConfigKey& key, Config& config) { return std::visit(Writer{key, config}, key.field); }

// A limit that was not set takes the best mechanism that there is; written down, it would be refused without one.
struct IsUnaskedLimit {
  template <typename T>
  bool operator()(const Limit<T>& limit) const {
    return !limit.asked;
  }
  bool operator()(const auto&) const { return false; }
};

bool IsUnasked(const ConfigKey& key, const Config& config) {
  const auto* field = std::get_if<PolicyField>(&key.field);
  return field != nullptr && policy::WithValue(*field->key, config.*field->spec, IsUnaskedLimit{});
}

std::string_view KindName(KeyKind kind) {
  switch (kind) {
    case KeyKind::kText: return "text";
    case KeyKind::kPath: return "absolute path";
    case KeyKind::kTexts: return "list of texts";
    case KeyKind::kPaths: return "list of absolute paths";
    case KeyKind::kAddresses: return "list of addresses";
    case KeyKind::kSwitch: return "true or false";
    case KeyKind::kSize: return "size";
    case KeyKind::kCount: return "count";
    case KeyKind::kCountOrZero: return "count, or 0";
    case KeyKind::kDuration: return "duration";
    case KeyKind::kRate: return "number";
    case KeyKind::kWord: return "one of";
    case KeyKind::kWords: return "list of";
    case KeyKind::kPolicy: break;
  }
  return "text";
}

}  // namespace

std::string RenderConfig(const Config& config) {
  Config copy = config;
  std::string text;
  for (const ConfigSection& section : ConfigSections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.section != section.name) continue;
      std::string value = ValueOf(key, copy);
      if (value.empty()) {
        text += fmt::format("# {} is not set\n", key.name);
      } else {
        const bool unasked = IsUnasked(key, copy);
        text += fmt::format("{}{} = {}\n", unasked ? "# default: " : "", key.name, value);
      }
    }
  }
  for (const auto& [client, limits] : config.client_quotas) {
    text += fmt::format("\n[quota.{}]\n", Quote(client));
    Config scratch;
    scratch.quota = limits;
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.section != "quota") continue;
      if (std::string value = ValueOf(key, scratch); !value.empty()) text += fmt::format("{} = {}\n", key.name, value);
    }
  }
  return text;
}

std::string RenderKeyReference() {
  Config defaults;
  std::string text;
  for (const ConfigSection& section : ConfigSections()) {
    text +=
        fmt::format("## [{}]\n\n{}\n\n| key | value | default | |\n|---|---|---|---|\n", section.name, section.help);
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.section != section.name) continue;
      const auto* field = std::get_if<PolicyField>(&key.field);
      bool words = key.kind == KeyKind::kWord || key.kind == KeyKind::kWords;
      std::string kind(field == nullptr ? KindName(key.kind) : policy::DescribeKind(*field->key));
      if (words) kind += fmt::format(" {}", key.note);
      std::string value = ValueOf(key, defaults);
      if (!words && !key.note.empty()) {
        value = key.note;
      } else {
        value = fmt::format("`{}`", value);
      }
      text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, kind, value, key.help);
    }
    text += "\n";
  }
  return text;
}

}  // namespace cella::server
