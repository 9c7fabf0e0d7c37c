// The Policy document of the HTTP API: from which a session is made, as the client wrote it. What is absent takes the
// server's default, so everything here is optional; whether the server allows it is decided in admission.h. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cella/policy.h"
#include "language/runner_protocol.h"
#include "server/api_error.h"

namespace cella::server {

struct PolicyDocument {
  std::optional<ExecutorKind> executor;
  std::optional<std::string> python, venv, workdir, rootfs;
  std::optional<std::vector<std::string>> preload;
  std::optional<Network> network;
  std::vector<Mount> mounts;
  std::vector<std::pair<std::string, std::string>> env;
  std::optional<language::CheckpointMode> checkpoint;
  std::optional<bool> best_effort;
  std::optional<std::chrono::nanoseconds> idle_timeout, max_lifetime;
  std::string name;                           // empty: none
  std::map<std::string, std::string> labels;  // for finding it again

  struct AskedLimits {
    std::optional<std::chrono::nanoseconds> timeout, cpu_time;
    std::optional<uint64_t> memory, pids, disk, open_files, output;
    std::optional<double> cpus;
  } limits;
};

// The body of a request; an empty one is {}. 400: not JSON, an unknown key, a value that cannot be meant. A null is
// the same as no value.
Answer<PolicyDocument> ParsePolicyDocument(std::string_view body);
// Part of a larger request. `value` is an object without keys that are there twice (ParseJsonObject).
Answer<PolicyDocument> ReadPolicyDocument(const nlohmann::json& value);

// The names of all keys, for documentation and hints.
std::vector<std::string_view> PolicyDocumentKeys();

}  // namespace cella::server
