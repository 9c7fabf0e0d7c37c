// The policy document of the given options: what differs from a default, or was asked for.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "cella/expected.h"
#include "cella/session_options.h"
#include "cella/words.h"

namespace cella::detail {

// An object that is written key by key.
class JsonObject {
 public:
  void Raw(std::string_view key, std::string_view value) {
    text_ += text_.size() > 1 ? "," : "";
    Quote(key, &text_);
    text_ += ':';
    text_ += value;
  }
  void Text(std::string_view key, std::string_view value) {
    std::string quoted;
    Quote(value, &quoted);
    Raw(key, quoted);
  }
  void TextIfAny(std::string_view key, std::string_view value) {
    if (!value.empty()) Text(key, value);
  }
  void Size(std::string_view key, uint64_t value) { Raw(key, std::to_string(value)); }
  void Time(std::string_view key, std::chrono::nanoseconds value) {
    // "1.5s", exactly: 17 digits.
    std::array<char, 40> digits{};
    const auto written =
        std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<double>(value.count()) / 1e9);
    Raw(key, std::string_view(digits.data(), static_cast<size_t>(written.ptr - digits.data())));
  }
  bool empty() const { return text_.size() == 1; }
  std::string Finish() && { return std::move(text_) + "}"; }

  static void Quote(std::string_view value, std::string* into) {
    constexpr std::string_view kHex = "0123456789abcdef";
    *into += '"';
    for (const char c : value) {
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        *into += '\\';
        *into += c;
      } else if (code < 0x20) {
        *into += "\\u00";
        *into += kHex[code >> 4];
        *into += kHex[code & 15];
      } else {
        *into += c;
      }
    }
    *into += '"';
  }

 private:
  std::string text_ = "{";
};

inline std::string ToJson(const Limits& limits) {
  const Limits defaults;
  JsonObject json;
  auto size = [&](std::string_view key, const Limit<uint64_t>& limit, const Limit<uint64_t>& usual) {
    if (limit.asked || limit.value != usual.value) json.Size(key, limit.value);
  };
  auto time = [&](std::string_view key, const Limit<std::chrono::nanoseconds>& limit,
                  const Limit<std::chrono::nanoseconds>& usual) {
    if (limit.asked || limit.value != usual.value) json.Time(key, limit.value);
  };
  time("timeout", limits.timeout, defaults.timeout);
  time("cpu_time", limits.cpu_time, defaults.cpu_time);
  size("memory", limits.memory, defaults.memory);
  size("pids", limits.pids, defaults.pids);
  size("disk", limits.disk, defaults.disk);
  size("open_files", limits.open_files, defaults.open_files);
  size("output", limits.output, defaults.output);
  size("calls", limits.calls, defaults.calls);
  size("calls_at_once", limits.calls_at_once, defaults.calls_at_once);
  size("call_size", limits.call_size, defaults.call_size);
  if (limits.cpus) {
    std::array<char, 40> digits{};
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), *limits.cpus);
    json.Raw("cpus", std::string_view(digits.data(), static_cast<size_t>(written.ptr - digits.data())));
  }
  return std::move(json).Finish();
}

inline std::string ToJson(const std::vector<std::string>& texts) {
  std::string json = "[";
  for (const std::string& text : texts) {
    json += json.size() > 1 ? "," : "";
    JsonObject::Quote(text, &json);
  }
  return json + "]";
}

inline std::string ToJson(const std::vector<Mount>& mounts) {
  std::string json = "[";
  for (const Mount& mount : mounts) {
    JsonObject each;
    each.Text("source", mount.source);
    each.Text("target", mount.target);
    each.Text("mode", ToString(mount.mode));
    json += json.size() > 1 ? "," : "";
    json += std::move(each).Finish();
  }
  return json + "]";
}

inline std::string ToJson(const ContainerPolicy& container) {
  const ContainerPolicy usual;
  JsonObject json;
  auto truth = [&](std::string_view key, bool value, bool normal) {
    if (value != normal) json.Raw(key, value ? "true" : "false");
  };
  if (container.mode != usual.mode) json.Text("mode", "command");
  json.TextIfAny("engine", container.engine);
  json.TextIfAny("image", container.image);
  if (container.pull != usual.pull) json.Text("pull", "never");
  json.TextIfAny("name", container.name);
  json.TextIfAny("runtime", container.runtime);
  json.TextIfAny("auth_token", container.auth_token);
  truth("auth_disabled", container.auth_disabled, usual.auth_disabled);
  truth("read_only", container.read_only, usual.read_only);
  json.TextIfAny("bind_dir", container.bind_dir);
  json.TextIfAny("user", container.user);
  if (!container.extra_hosts.empty()) {
    JsonObject hosts;
    for (const auto& [name, address] : container.extra_hosts) hosts.Text(name, address);
    json.Raw("extra_hosts", std::move(hosts).Finish());
  }
  if (!container.device_requests.empty()) json.Raw("device_requests", container.device_requests);
  if (!container.cap_add.empty()) json.Raw("cap_add", ToJson(container.cap_add));
  json.TextIfAny("init_command", container.init_command);
  truth("auto_remove", container.auto_remove, usual.auto_remove);
  truth("stop_container", container.stop_container, usual.stop_container);
  return std::move(json).Finish();
}

inline Expected<std::string> ToDocument(const SessionOptions& options) {
  const Policy& policy = options.policy;
  if (policy.inherit_env) {
    return Failure{Failure::Code::kUnsupported, "inherit_env is not available in the library: name variables in env"};
  }
  const bool confined = Confines(options.executor) || policy.jail;
  JsonObject json;
  json.Text("executor", RowOf(options.executor).name);
  // Others have the network of the host, and refuse to be asked for none.
  if (confined) json.Text("network", ToString(policy.network));
  json.Raw("limits", ToJson(policy.limits));
  if (!policy.mounts.empty()) json.Raw("mounts", ToJson(policy.mounts));
  // The keys of a container are refused by other executors.
  if (const std::string container = ToJson(policy.container); container != "{}") json.Raw("container", container);
  if (!policy.env.empty()) {
    JsonObject env;
    for (const auto& [name, value] : policy.env) env.Text(name, value);
    json.Raw("env", std::move(env).Finish());
  }
  if (policy.best_effort) json.Raw("best_effort", "true");
  json.TextIfAny("workdir", policy.workdir);
  json.TextIfAny("rootfs", policy.rootfs);
  json.TextIfAny("venv", policy.venv);
  json.TextIfAny("python", policy.python);
  json.TextIfAny("kernel", policy.kernel);
  if (policy.system_packages) json.Raw("system_packages", "true");
  if (policy.values_of_assignments) json.Text("value_of", "last_expr_or_assign");
  if (policy.jail) json.Raw("jail", "true");
  if (policy.startup_timeout != Policy().startup_timeout) json.Time("startup_timeout", policy.startup_timeout);
  if (!options.preload.empty()) json.Raw("preload", ToJson(options.preload));
  json.TextIfAny("storage", options.storage);
  if (options.checkpoint != CheckpointMode::kAuto) json.Text("checkpoint", ToString(options.checkpoint));
  if (options.idle_timeout) json.Time("idle_timeout", *options.idle_timeout);
  if (options.max_lifetime) json.Time("max_lifetime", *options.max_lifetime);
  return std::move(json).Finish();
}

}  // namespace cella::detail
