#include "docker/container_spec.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace cella::docker {
namespace {

using Json = nlohmann::json;

constexpr double kNanoCpus = 1e9;

int64_t NanoCpus(double cpus) { return static_cast<int64_t>(std::llround(cpus * kNanoCpus)); }

const Json& Member(const Json& json, const char* name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string Text(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }
int64_t Number(const Json& json) { return json.is_number() ? json.get<int64_t>() : 0; }
bool IsTrue(const Json& json) { return json.is_boolean() && json.get<bool>(); }

std::vector<std::string> Texts(const Json& json) {
  std::vector<std::string> texts;
  if (!json.is_array()) return texts;
  for (const Json& one : json) texts.push_back(Text(one));
  return texts;
}

std::map<std::string, std::string> TextMap(const Json& json) {
  std::map<std::string, std::string> texts;
  if (!json.is_object()) return texts;
  for (const auto& [name, value] : json.items()) texts[name] = Text(value);
  return texts;
}

Json Ulimit(const char* name, uint64_t value) { return {{"Name", name}, {"Soft", value}, {"Hard", value}}; }

// Engines put "CAP_" in front of the names, or do not.
std::vector<std::string> Canonical(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (name.starts_with("CAP_")) name.erase(0, 4);
  }
  std::ranges::sort(names);
  return names;
}

bool SameCapabilities(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return Canonical(a) == Canonical(b);
}

}  // namespace

std::string EncodeContainer(const ContainerSpec& spec) {
  Json mounts = Json::array();
  for (const BindMount& bind : spec.binds) {
    mounts.push_back(
        {{"Type", "bind"}, {"Source", bind.source}, {"Target", bind.target}, {"ReadOnly", bind.read_only}});
  }
  for (const std::string& target : spec.volumes) mounts.push_back({{"Type", "volume"}, {"Target", target}});
  Json tmpfs = Json::object();
  for (const TmpfsMount& mount : spec.tmpfs) tmpfs[mount.target] = mount.options;
  Json ulimits = Json::array();
  ulimits.push_back(Ulimit("core", 0));
  if (spec.open_files != 0) ulimits.push_back(Ulimit("nofile", spec.open_files));
  if (spec.processes != 0) ulimits.push_back(Ulimit("nproc", spec.processes));
  Json host = {{"AutoRemove", spec.auto_remove},
               {"NetworkMode", spec.network},
               {"ReadonlyRootfs", spec.read_only_root},
               {"CapDrop", {"ALL"}},
               {"SecurityOpt", {"no-new-privileges"}},
               {"LogConfig", {{"Type", "none"}}},
               {"RestartPolicy", {{"Name", "no"}}},
               {"Mounts", mounts},
               {"Tmpfs", tmpfs},
               {"Ulimits", ulimits}};
  if (!spec.cap_add.empty()) host["CapAdd"] = spec.cap_add;
  if (!spec.extra_hosts.empty()) host["ExtraHosts"] = spec.extra_hosts;
  if (!spec.runtime.empty()) host["Runtime"] = spec.runtime;
  if (spec.memory != 0) host["Memory"] = host["MemorySwap"] = spec.memory;
  if (spec.cpus > 0) host["NanoCpus"] = NanoCpus(spec.cpus);
  if (spec.pids != 0) host["PidsLimit"] = spec.pids;
  if (spec.shm_bytes != 0) host["ShmSize"] = spec.shm_bytes;
  if (auto requests = Json::parse(spec.device_requests, nullptr, false); requests.is_array() && !requests.empty()) {
    host["DeviceRequests"] = std::move(requests);
  }
  Json body = {{"Image", spec.image},   {"Entrypoint", spec.entrypoint},
               {"Cmd", Json::array()},  {"Env", spec.env},
               {"Labels", spec.labels}, {"AttachStdin", true},
               {"AttachStdout", true},  {"AttachStderr", true},
               {"OpenStdin", true},     {"StdinOnce", true},
               {"Tty", false},          {"Healthcheck", {{"Test", {"NONE"}}}},
               {"HostConfig", host}};
  if (!spec.working_dir.empty()) body["WorkingDir"] = spec.working_dir;
  if (!spec.user.empty()) body["User"] = spec.user;
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ContainerFacts> DecodeContainer(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Err(ErrorCode::kInvalid, "the engine's description of the container is no JSON object");
  ContainerFacts facts;
  facts.id = Text(Member(json, "Id"));
  facts.name = Text(Member(json, "Name"));
  if (facts.name.starts_with('/')) facts.name.erase(0, 1);
  const Json& state = Member(json, "State");
  facts.status = Text(Member(state, "Status"));
  facts.running = IsTrue(Member(state, "Running"));
  facts.oom_killed = IsTrue(Member(state, "OOMKilled"));
  facts.exit_code = static_cast<int>(Number(Member(state, "ExitCode")));
  facts.pid = static_cast<int>(Number(Member(state, "Pid")));
  facts.error = Text(Member(state, "Error"));
  const Json& config = Member(json, "Config");
  facts.user = Text(Member(config, "User"));
  facts.labels = TextMap(Member(config, "Labels"));
  const Json& host = Member(json, "HostConfig");
  facts.network = Text(Member(host, "NetworkMode"));
  facts.runtime = Text(Member(host, "Runtime"));
  facts.memory = Number(Member(host, "Memory"));
  facts.memory_swap = Number(Member(host, "MemorySwap"));
  facts.nano_cpus = Number(Member(host, "NanoCpus"));
  facts.pids_limit = Number(Member(host, "PidsLimit"));
  facts.read_only_root = IsTrue(Member(host, "ReadonlyRootfs"));
  facts.auto_remove = IsTrue(Member(host, "AutoRemove"));
  facts.privileged = IsTrue(Member(host, "Privileged"));
  facts.cap_add = Texts(Member(host, "CapAdd"));
  facts.cap_drop = Texts(Member(host, "CapDrop"));
  facts.security_opt = Texts(Member(host, "SecurityOpt"));
  facts.tmpfs = TextMap(Member(host, "Tmpfs"));
  facts.log_driver = Text(Member(Member(host, "LogConfig"), "Type"));
  if (const Json& ulimits = Member(host, "Ulimits"); ulimits.is_array()) {
    for (const Json& one : ulimits) {
      facts.ulimits[Text(Member(one, "Name"))] = {Number(Member(one, "Soft")), Number(Member(one, "Hard"))};
    }
  }
  return facts;
}

std::vector<Missing> CompareWithRequest(const ContainerSpec& wanted, const ContainerFacts& found) {
  std::vector<Missing> missing;
  auto check = [&](const char* name, bool holds, std::string instead) {
    if (!holds) missing.push_back({name, std::move(instead)});
  };
  const auto memory = static_cast<int64_t>(wanted.memory);
  if (wanted.memory != 0) {
    check("memory", found.memory == memory, fmt::format("{}", found.memory));
    check("swap", found.memory != memory || found.memory_swap == memory, fmt::format("{}", found.memory_swap));
  }
  if (wanted.cpus > 0) check("cpus", found.nano_cpus == NanoCpus(wanted.cpus), fmt::format("{}", found.nano_cpus));
  if (wanted.pids != 0) {
    check("pids", found.pids_limit == static_cast<int64_t>(wanted.pids), fmt::format("{}", found.pids_limit));
  }
  check("network", found.network == wanted.network, found.network);
  check("read_only", !wanted.read_only_root || found.read_only_root, "a writable root");
  // Podman lists what it dropped one by one.
  const bool all = std::ranges::any_of(found.cap_drop, [](const std::string& name) { return name == "ALL"; });
  check("capabilities", !found.privileged && (all || found.cap_drop.size() >= 10),
        fmt::format("{} dropped", found.cap_drop.size()));
  check("cap_add", SameCapabilities(wanted.cap_add, found.cap_add), fmt::format("{}", fmt::join(found.cap_add, ", ")));
  const bool no_new = std::ranges::any_of(
      found.security_opt, [](const std::string& option) { return option.starts_with("no-new-privileges"); });
  check("no_new_privileges", no_new, "new privileges allowed");
  return missing;
}

}  // namespace cella::docker
