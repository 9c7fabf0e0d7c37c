// What a session is made from, besides its policy. Plain values.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cella/policy.h"

namespace cella {

struct SessionOptions {
  Policy policy;
  ExecutorKind executor = kDefaultExecutor;
  std::vector<std::string> preload;  // Python modules that are imported before the session begins
  CheckpointMode checkpoint = CheckpointMode::kAuto;
  std::string storage;  // a directory of artifacts and workflows, by its absolute path; empty: none
  std::optional<std::chrono::nanoseconds> idle_timeout;  // empty: none
  std::optional<std::chrono::nanoseconds> max_lifetime;  // likewise
};

}  // namespace cella
