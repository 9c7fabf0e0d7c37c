#include "server/policy_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/units.h"
#include "server/json_input.h"
#include "server/names.h"
#include "server/scalar.h"

namespace cella::server {
namespace {

using nlohmann::json;

// What is wrong, and where below the value that was looked at: "", "memory", "[0].source".
struct Fault {
  std::string where;
  std::string message;
};
template <typename T>
using Read = std::expected<T, Fault>;
using Done = Read<void>;

std::unexpected<Fault> Bad(std::string message) { return std::unexpected(Fault{{}, std::move(message)}); }

std::unexpected<Fault> Below(std::string_view key, Fault fault) {
  std::string_view joint = fault.where.empty() || fault.where[0] == '[' ? "" : ".";
  fault.where = fmt::format("{}{}{}", key, joint, fault.where);
  return std::unexpected(std::move(fault));
}

// Far more than anybody needs, and little enough to be kept for each of many sessions.
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxMounts = 32;
constexpr size_t kMaxModules = 64;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxLabelValue = 256;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxVariableBytes = size_t{64} << 10;  // of all together; the kernel takes some 128k of one

struct DocumentKey {
  std::string_view name;
  Done (*read)(const json& value, PolicyDocument& document);
};

// Our parsers say what is wrong with a value; here that is the client's doing.
template <typename T>
Read<T> FromResult(Result<T> result) {
  if (!result) return Bad(std::move(result.error().message));
  return std::move(*result);
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
  if (!path.starts_with('/')) return Bad(fmt::format("'{}' is not an absolute path", Shown(path)));
  return path;
}

template <auto field>
Done ReadHostPath(const json& value, PolicyDocument& document) {
  TRY(document.*field, HostPath(value));
  return {};
}

Done ReadPython(const json& value, PolicyDocument& document) {
  TRY(document.python, Text(value, kMaxPath));
  return {};
}

Done ReadExecutor(const json& value, PolicyDocument& document) {
  TRY(std::string word, Text(value, kMaxPath));
  document.executor = ParseExecutorKind(word);
  if (!document.executor) return Bad(fmt::format("'{}' is not an executor: use sandbox or local", Shown(word)));
  return {};
}

Done ReadNetwork(const json& value, PolicyDocument& document) {
  TRY(std::string word, Text(value, kMaxPath));
  document.network = ParseNetwork(word);
  if (!document.network) return Bad(fmt::format("'{}' is not a network: use none or host", Shown(word)));
  return {};
}

Done ReadCheckpoint(const json& value, PolicyDocument& document) {
  TRY(std::string word, Text(value, kMaxPath));
  document.checkpoint = language::ParseCheckpointMode(word);
  if (!document.checkpoint) return Bad(fmt::format("'{}' is none of auto, always and off", Shown(word)));
  return {};
}

Done ReadBestEffort(const json& value, PolicyDocument& document) {
  if (!value.is_boolean()) return Bad("must be true or false");
  document.best_effort = value.get<bool>();
  return {};
}

template <auto field>
Done ReadTime(const json& value, PolicyDocument& document) {
  TRY(document.*field, FromResult(ReadDuration(ToScalar(value))));
  return {};
}

Done ReadPreload(const json& value, PolicyDocument& document) {
  if (!value.is_array()) return Bad("must be a list of names of Python modules");
  if (value.size() > kMaxModules) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxModules));
  std::vector<std::string> modules;
  for (const json& each : value) {
    TRY(std::string module, Text(each, kMaxPath));
    if (!IsModuleName(module)) return Bad(fmt::format("'{}' is not the name of a Python module", Shown(module)));
    modules.push_back(std::move(module));
  }
  document.preload = std::move(modules);
  return {};
}

Done ReadName(const json& value, PolicyDocument& document) {
  TRY(std::string name, Text(value, kMaxPath));
  if (!IsName(name)) {
    return Bad(fmt::format("'{}' is not a name: letters, digits, '.', '_' and '-', 64 at most", Shown(name)));
  }
  document.name = std::move(name);
  return {};
}

Done ReadLabels(const json& value, PolicyDocument& document) {
  if (!value.is_object()) return Bad("must be an object of texts");
  if (value.size() > kMaxLabels) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxLabels));
  for (const auto& [label, text] : value.items()) {
    if (!IsName(label)) {
      return Bad(fmt::format("'{}' is not a name: letters, digits, '.', '_' and '-', 64 at most", Shown(label)));
    }
    if (!text.is_string()) return Bad(fmt::format("the value of '{}' must be text", label));
    const auto& content = text.get_ref<const std::string&>();
    if (content.size() > kMaxLabelValue) {
      return Bad(fmt::format("the value of '{}' is too long: at most {} bytes", label, kMaxLabelValue));
    }
    // Labels are printed in lists and logs.
    if (std::ranges::any_of(content, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
      return Bad(fmt::format("the value of '{}' contains control characters", label));
    }
    document.labels.emplace(label, content);
  }
  return {};
}

Done ReadEnv(const json& value, PolicyDocument& document) {
  if (!value.is_object()) return Bad("must be an object of texts, as {\"NAME\": \"value\"}");
  if (value.size() > kMaxVariables) {
    return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxVariables));
  }
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
    document.env.emplace_back(name, content);
  }
  return {};
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

Done ReadMounts(const json& value, PolicyDocument& document) {
  if (!value.is_array()) return Bad("must be a list");
  if (value.size() > kMaxMounts) return Bad(fmt::format("has {} entries: at most {}", value.size(), kMaxMounts));
  for (size_t i = 0; i < value.size(); ++i) {
    auto mount = ReadMount(value[i]);
    if (!mount) return Below(fmt::format("[{}]", i), std::move(mount.error()));
    document.mounts.push_back(std::move(*mount));
  }
  return {};
}

template <auto field, auto parse>
Done ReadLimit(const json& value, PolicyDocument& document) {
  TRY(document.limits.*field, FromResult(parse(ToScalar(value))));
  return {};
}

using Asked = PolicyDocument::AskedLimits;
constexpr DocumentKey kLimits[] = {
    {"timeout", ReadLimit<&Asked::timeout, ReadDuration>},
    {"cpu_time", ReadLimit<&Asked::cpu_time, ReadDuration>},
    {"memory", ReadLimit<&Asked::memory, ReadSize>},
    {"cpus", ReadLimit<&Asked::cpus, ReadCpus>},
    {"pids", ReadLimit<&Asked::pids, ReadCount>},
    {"disk", ReadLimit<&Asked::disk, ReadSize>},
    {"open_files", ReadLimit<&Asked::open_files, ReadCount>},
    {"output", ReadLimit<&Asked::output, ReadSize>},
};

std::vector<std::string_view> NamesOf(std::span<const DocumentKey> keys) {
  std::vector<std::string_view> names;
  names.reserve(keys.size());
  for (const DocumentKey& key : keys) names.push_back(key.name);
  return names;
}

Done ReadObject(const json& object, std::span<const DocumentKey> keys, PolicyDocument& document) {
  for (const auto& [name, value] : object.items()) {
    auto key = std::ranges::find(keys, std::string_view(name), &DocumentKey::name);
    if (key == keys.end()) return Bad(UnknownKey(name, NamesOf(keys)));
    if (value.is_null()) continue;
    if (Done read = key->read(value, document); !read) return Below(name, std::move(read.error()));
  }
  return {};
}

Done ReadLimits(const json& value, PolicyDocument& document) {
  if (!value.is_object()) return Bad("must be an object, as {\"memory\": \"1g\"}");
  TRY_VOID(ReadObject(value, kLimits, document));
  if (document.limits.memory.value_or(kMinMemory) < kMinMemory) {
    return Below("memory", {{}, fmt::format("at least {} is needed", FormatByteSize(kMinMemory))});
  }
  if (document.limits.open_files.value_or(kMinOpenFiles) < kMinOpenFiles) {
    return Below("open_files", {{}, fmt::format("at least {} are needed", kMinOpenFiles)});
  }
  return {};
}

constexpr DocumentKey kKeys[] = {
    {"executor", ReadExecutor},
    {"python", ReadPython},
    {"preload", ReadPreload},
    {"limits", ReadLimits},
    {"network", ReadNetwork},
    {"venv", ReadHostPath<&PolicyDocument::venv>},
    {"workdir", ReadHostPath<&PolicyDocument::workdir>},
    {"rootfs", ReadHostPath<&PolicyDocument::rootfs>},
    {"name", ReadName},
    {"labels", ReadLabels},
    {"env", ReadEnv},
    {"mounts", ReadMounts},
    {"checkpoint", ReadCheckpoint},
    {"idle_timeout", ReadTime<&PolicyDocument::idle_timeout>},
    {"max_lifetime", ReadTime<&PolicyDocument::max_lifetime>},
    {"best_effort", ReadBestEffort},
};

}  // namespace

Answer<PolicyDocument> ReadPolicyDocument(const json& value) {
  if (!value.is_object()) return Invalid("the policy is not a JSON object");
  PolicyDocument document;
  if (Done read = ReadObject(value, kKeys, document); !read) {
    auto& [where, message] = read.error();
    return Invalid(where.empty() ? std::move(message) : fmt::format("{}: {}", where, message));
  }
  return document;
}

Answer<PolicyDocument> ParsePolicyDocument(std::string_view body) {
  TRY(json parsed, ParseJsonObject(body));
  return ReadPolicyDocument(parsed);
}

std::vector<std::string_view> PolicyDocumentKeys() { return NamesOf(kKeys); }

}  // namespace cella::server
