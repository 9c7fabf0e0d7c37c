// The engine of a command, wired together: what was installed, what the machine offers, an executor over both.
#pragma once

#include <memory>
#include <optional>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "confine/host_shares.h"
#include "engine/installation.h"
#include "executor/sandbox/pool_limits.h"
#include "executor/subprocess/kernel_environments.h"
#include "language/code_trust.h"
#include "language/table.h"
#include "os/cgroup.h"
#include "run/executor.h"

namespace cella::engine {

struct Engine {
  language::LanguageTable table;  // the executor refers to it
  std::unique_ptr<run::Executor> executor;
};

struct EngineOptions {
  executor::PoolLimits pool{};                // what the sandbox makes ahead of demand
  std::vector<std::string> guest_writable{};  // real paths that guests may have written to: nothing there is trusted
  // Shared by the engines of a process, whose guests are the same danger to each (MakeGuestDirectories). Null: its own.
  std::shared_ptr<language::GuestDirectories> guest_directories{};
  std::string state_dir{};                      // for what is remembered of programs, where there is no home directory
  std::vector<confine::GuardedPath> guarded{};  // paths that no guest may have, besides GuardedPaths
  std::string layers{};                         // packages that sessions add (installer/session_layer.h)
  confine::OpenedPaths opened{};                // parts of the state that policies of the engine's own may show
  // Where ipykernel comes from; outlives the engine. Null: only from the interpreters themselves.
  executor::KernelEnvironments* kernel_environments = nullptr;
  // Of an application that we are a part of: its files are not found beside the program, and it is not moved.
  std::optional<Installation> installation{};
  os::Placement placement = os::Placement::kMayMove;
};

// With the record of the caller's other processes. Not to be called while another thread changes the environment.
std::shared_ptr<language::GuestDirectories> MakeGuestDirectories(const std::string& state_dir = "");

Result<std::unique_ptr<Engine>> MakeEngine(async::Loop& loop, ExecutorKind kind, EngineOptions options = {});
}  // namespace cella::engine
