#include "policy/read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "environment/requirement.h"
#include "policy/container_values.h"
#include "policy/names.h"

namespace cella::policy {
namespace {

using nlohmann::json;
using Done = Read<void>;

std::unexpected<Fault> Bad(std::string message) { return std::unexpected(Fault{{}, std::move(message)}); }

std::unexpected<Fault> Below(std::string_view key, Fault fault) {
  std::string_view joint = fault.where.empty() || fault.where[0] == '[' ? "" : ".";
  fault.where = fmt::format("{}{}{}", key, joint, fault.where);
  return std::unexpected(std::move(fault));
}

// Far more than sessions need, and little enough to be kept for each of many sessions.
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxMounts = 32;
constexpr size_t kMaxModules = 64;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxLabelValue = 256;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxVariableBytes = size_t{64} << 10;  // of all together; the kernel takes some 128k of one

template <typename T>
Read<T> FromResult(Result<T> result) {
  if (!result) return Bad(std::move(result.error().message));
  return std::move(*result);
}

template <typename T>
Read<T> FromExpected(std::expected<T, std::string> value) {
  if (!value) return Bad(std::move(value.error()));
  return std::move(*value);
}

Read<std::string> Text(const json& value, size_t limit) {
  if (!value.is_string()) return Bad("must be text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty()) return Bad("must not be empty");
  if (text.size() > limit) return Bad(fmt::format("is too long: at most {} bytes", limit));
  if (text.contains('\0')) return Bad("contains a NUL byte");
  return text;
}

// A path of the server's machine. What a relative one starts from, no client can know.
Read<std::string> HostPath(const json& value) {
  TRY(std::string path, Text(value, kMaxPath));
  if (!path.starts_with('/')) return Bad(fmt::format("'{}' must be an absolute path", Shown(path)));
  return path;
}

std::unexpected<Fault> NotAName(std::string_view text) {
  return Bad(fmt::format("'{}' is not a name: letters, digits, '.', '_' and '-', 64 at most", Shown(text)));
}

Read<Mount> ReadMount(const json& value) {
  if (!value.is_object()) return Bad(R"(must be an object, as {"source": "/data", "target": "/data", "mode": "ro"})");
  Mount mount;
  for (const auto& [key, part] : value.items()) {
    if (key != "source" && key != "target" && key != "mode") return Bad(UnknownKey(key, {"source", "target", "mode"}));
    if (part.is_null()) continue;
    Done read = [&]() -> Done {
      if (key == "source") {
        TRY(mount.source, HostPath(part));
      } else if (key == "target") {
        TRY(mount.target, HostPath(part));
      } else {
        TRY(std::string word, Text(part, kMaxPath));
        auto mode = ParseMountMode(word);
        if (!mode) return Bad(fmt::format("'{}' is neither ro nor rw", Shown(word)));
        mount.mode = *mode;
      }
      return {};
    }();
    if (!read) return Below(key, std::move(read.error()));
  }
  if (mount.source.empty()) return Bad("lacks 'source'");
  if (mount.target.empty()) return Bad("lacks 'target'");
  return mount;
}

Read<std::vector<std::string>> ReadPackages(const json& value) {
  if (!value.is_array()) return Bad("must be a list of packages, as \"numpy>=2\"");
  std::vector<std::string> texts;
  for (const json& each : value) {
    TRY(std::string text, Text(each, environment::kMaxSpecBytes));
    texts.push_back(std::move(text));
  }
  auto parsed = environment::ParseRequirements(texts);
  if (!parsed) return Bad(std::move(parsed.error().message));
  return texts;
}

Read<std::vector<std::string>> ReadModules(const json& value) {
  if (!value.is_array()) return Bad("must be a list of names of Python modules");
  if (value.size() > kMaxModules) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxModules));
  std::vector<std::string> modules;
  for (const json& each : value) {
    TRY(std::string module, Text(each, kMaxPath));
    if (!IsModuleName(module)) return Bad(fmt::format("'{}' is not the name of a Python module", Shown(module)));
    modules.push_back(std::move(module));
  }
  return modules;
}

// SOURCE:TARGET[:ro|rw]
Read<Mount> ParseMount(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  auto mode = second == std::string_view::npos ? MountMode::kReadOnly : ParseMountMode(text.substr(second + 1));
  if (first == 0 || first == std::string_view::npos || !mode) {
    return Bad(fmt::format("'{}' is not SOURCE:TARGET[:ro|rw]", Shown(text)));
  }
  const size_t end = second == std::string_view::npos ? text.size() : second;
  if (end == first + 1) return Bad(fmt::format("the target of '{}' is empty", Shown(text)));
  return Mount{std::string(text.substr(0, first)), std::string(text.substr(first + 1, end - first - 1)), *mode};
}

// Sets one field; its type and the kind of the key fit together by the table (a test goes over all).
struct Setter {
  const Key& key;
  const json& value;
  SessionSpec& spec;

  Done operator()(At<std::string> at) const {
    if (key.kind == Kind::kPath) {
      TRY(*at(spec), HostPath(value));
      return {};
    }
    if (key.kind == Kind::kDevices) {
      TRY(*at(spec), FromExpected(ReadDevices(value)));
      return {};
    }
    TRY(std::string text, Text(value, kMaxPath));
    if (key.kind == Kind::kName && !IsName(text)) return NotAName(text);
    *at(spec) = std::move(text);
    return {};
  }

  Done operator()(At<std::vector<std::string>> at) const {
    if (key.kind == Kind::kPackages) {
      TRY(*at(spec), ReadPackages(value));
      return {};
    }
    if (key.kind == Kind::kCapabilities) {
      TRY(*at(spec), FromExpected(ReadCapabilities(value)));
      return {};
    }
    TRY(*at(spec), ReadModules(value));
    return {};
  }

  Done operator()(At<EnvironmentChoice> at) const {
    TRY(*at(spec), ReadEnvironment(value));
    return {};
  }

  Done operator()(At<bool> at) const {
    if (!value.is_boolean()) return Bad("must be true or false");
    *at(spec) = value.get<bool>();
    return {};
  }

  Read<uint64_t> Number(const Scalar& scalar) const {
    return FromResult(key.kind == Kind::kSize ? ReadSize(scalar) : ReadCount(scalar));
  }

  Done operator()(At<Limit<uint64_t>> at) const {
    TRY(uint64_t number, Number(ToScalar(value)));
    if (!key.least.empty()) {
      TRY(uint64_t least, Number(key.least));
      if (number < least) {
        return Bad(fmt::format("at least {} {} needed", key.least, key.kind == Kind::kSize ? "is" : "are"));
      }
    }
    *at(spec) = {number, true};
    return {};
  }

  Done operator()(At<Nanoseconds> at) const {
    TRY(*at(spec), FromResult(ReadDuration(ToScalar(value))));
    return {};
  }

  Done operator()(At<Limit<Nanoseconds>> at) const {
    TRY(Nanoseconds time, FromResult(ReadDuration(ToScalar(value))));
    *at(spec) = {time, true};
    return {};
  }

  Done operator()(At<std::optional<double>> at) const {
    TRY(*at(spec), FromResult(ReadCpus(ToScalar(value))));
    return {};
  }

  Done operator()(At<Variables> at) const {
    if (key.kind == Kind::kHosts) {
      TRY(*at(spec), FromExpected(ReadHosts(value)));
      return {};
    }
    if (!value.is_object()) return Bad("must be an object of texts, as {\"NAME\": \"value\"}");
    if (value.size() > kMaxVariables) {
      return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxVariables));
    }
    Variables variables;
    size_t bytes = 0;
    for (const auto& [name, text] : value.items()) {
      if (!IsVariableName(name)) return Bad(fmt::format("'{}' is not the name of a variable", Shown(name)));
      if (!text.is_string()) return Bad(fmt::format("the value of '{}' must be text", name));
      const auto& content = text.get_ref<const std::string&>();
      if (content.contains('\0')) return Bad(fmt::format("the value of '{}' contains a NUL byte", name));
      bytes += name.size() + content.size() + 2;
      if (bytes > kMaxVariableBytes) {
        return Bad(fmt::format("is too large: at most {} together", FormatByteSize(kMaxVariableBytes)));
      }
      variables.emplace_back(name, content);
    }
    *at(spec) = std::move(variables);
    return {};
  }

  Done operator()(At<std::vector<Mount>> at) const {
    if (!value.is_array()) return Bad("must be a list");
    if (value.size() > kMaxMounts) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxMounts));
    std::vector<Mount> mounts;
    for (size_t i = 0; i < value.size(); ++i) {
      auto mount = ReadMount(value[i]);
      if (!mount) return Below(fmt::format("[{}]", i), std::move(mount.error()));
      mounts.push_back(std::move(*mount));
    }
    *at(spec) = std::move(mounts);
    return {};
  }

  Done operator()(At<Labels> at) const {
    if (!value.is_object()) return Bad("must be an object of texts");
    if (value.size() > kMaxLabels) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxLabels));
    Labels labels;
    for (const auto& [label, text] : value.items()) {
      if (!IsName(label)) return NotAName(label);
      if (!text.is_string()) return Bad(fmt::format("the value of '{}' must be text", label));
      const auto& content = text.get_ref<const std::string&>();
      if (content.size() > kMaxLabelValue) {
        return Bad(fmt::format("the value of '{}' is too long: at most {} bytes", label, kMaxLabelValue));
      }
      // Labels are printed in lists and logs.
      if (std::ranges::any_of(content, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
        return Bad(fmt::format("the value of '{}' contains control characters", label));
      }
      labels.emplace(label, content);
    }
    *at(spec) = std::move(labels);
    return {};
  }

  Done operator()(const WordField& field) const {
    TRY(std::string word, Text(value, kMaxPath));
    if (field.set(spec, word)) return {};
    return Bad(fmt::format("'{}' is none of {}", Shown(word), field.words()));
  }
};

// Of the keys that begin with `prefix`, the next part of their names.
std::vector<std::string_view> PartsBelow(std::string_view prefix) {
  std::vector<std::string_view> parts;
  for (const Key& key : Keys()) {
    if (key.ask == Ask::kNever || !key.name.starts_with(prefix)) continue;
    std::string_view part = key.name.substr(prefix.size());
    part = part.substr(0, part.find('.'));
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
  }
  return parts;
}

Done ReadObject(const json& object, const std::string& prefix, Request* request) {
  const std::vector<std::string_view> known = PartsBelow(prefix);
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, std::string_view(name)) == known.end()) return Bad(UnknownKey(name, known));
    if (value.is_null()) continue;
    const Key* key = Find(prefix + name);
    if (key == nullptr && !value.is_object()) return Below(name, {{}, "must be an object, as {\"memory\": \"1g\"}"});
    Done read = key == nullptr ? ReadObject(value, prefix + name + ".", request) : Set(*key, value, &request->spec);
    if (!read) return Below(name, std::move(read.error()));
    if (key != nullptr) request->given.Add(*key);
  }
  return {};
}

}  // namespace

Read<EnvironmentChoice> ReadEnvironment(const json& value) {
  EnvironmentChoice choice;
  if (value.is_string()) {
    TRY(choice.name, Text(value, kMaxPath));
    if (!IsName(choice.name)) return NotAName(choice.name);
    return choice;
  }
  if (!value.is_object()) return Bad(R"(must be a name, or an object, as {"packages": ["numpy>=2"]})");
  for (const auto& [key, part] : value.items()) {
    if (key != "python" && key != "packages" && key != "preload") {
      return Bad(UnknownKey(key, {"python", "packages", "preload"}));
    }
    if (part.is_null()) continue;
    Done read = [&]() -> Done {
      if (key == "python") {
        TRY(choice.python, Text(part, kMaxPath));
      } else if (key == "packages") {
        TRY(choice.packages, ReadPackages(part));
      } else {
        TRY(choice.preload, ReadModules(part));
      }
      return {};
    }();
    if (!read) return Below(key, std::move(read.error()));
  }
  if (choice.empty()) return Bad("is empty: name packages, or leave it out");
  return choice;
}

Scalar ToScalar(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return std::string_view(value.get_ref<const std::string&>());
  return std::monostate();
}

Done Set(const Key& key, const json& value, SessionSpec* spec) {
  return std::visit(Setter{key, value, *spec}, key.field);
}

Done SetText(const Key& key, std::string_view text, SessionSpec* spec) {
  switch (key.kind) {
    case Kind::kSwitch: return Set(key, json(text == "true"), spec);
    case Kind::kPath:
      if (text.empty()) return Bad("the path is empty");
      *std::get<At<std::string>>(key.field)(*spec) = text;
      return {};
    case Kind::kVariables: {
      const size_t equals = text.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return Bad(fmt::format("'{}' is not NAME=VALUE (use --pass-env to pass a variable on)", Shown(text)));
      }
      std::get<At<Variables>>(key.field)(*spec)->emplace_back(text.substr(0, equals), text.substr(equals + 1));
      return {};
    }
    case Kind::kMounts: {
      TRY(Mount mount, ParseMount(text));
      std::get<At<std::vector<Mount>>>(key.field)(*spec)->push_back(std::move(mount));
      return {};
    }
    case Kind::kHosts: {
      TRY(auto host, FromExpected(ParseHost(text)));
      std::get<At<Variables>>(key.field)(*spec)->push_back(std::move(host));
      return {};
    }
    case Kind::kDevices: {
      TRY(*std::get<At<std::string>>(key.field)(*spec), FromExpected(ParseDevices(text)));
      return {};
    }
    case Kind::kCapabilities:
    case Kind::kModules: {
      json list = *std::get<At<std::vector<std::string>>>(key.field)(*spec);
      list.push_back(text);
      return Set(key, list, spec);
    }
    default: return Set(key, json(text), spec);
  }
}

Read<Request> ReadDocument(const json& object) {
  Request request;
  TRY_VOID(ReadObject(object, "", &request));
  return request;
}

}  // namespace cella::policy
