// Whether this server gives what a Policy document asks for, and the session that follows from document and
// configuration together. Resolves host paths, hence blocks on the file system for a moment; keeps nothing.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cella/policy.h"
#include "language/runner_protocol.h"
#include "server/api_error.h"
#include "server/config.h"
#include "server/policy_document.h"

namespace cella::server {

// What a session is made from: nothing is left open.
struct SessionSpec {
  ExecutorKind executor = ExecutorKind::kSandbox;
  Policy policy;
  std::vector<std::string> preload;
  language::CheckpointMode checkpoint = language::CheckpointMode::kAuto;
  std::chrono::nanoseconds idle_timeout{};
  std::chrono::nanoseconds max_lifetime{};
  std::string name;
  std::map<std::string, std::string> labels;
};

// 403 names the key that this server does not allow; 400 what contradicts itself or does not exist. `client` is whose
// quota bounds the memory of one session.
Answer<SessionSpec> Admit(const PolicyDocument& document, const Config& config, std::string_view client);

}  // namespace cella::server
