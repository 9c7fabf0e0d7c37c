// The engine of a command, wired together: what was installed, what the machine offers, an executor over both.
#pragma once

#include <memory>

#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "executor/executor.h"
#include "executor/sandbox/session_pool.h"
#include "language/table.h"

namespace cella::session {

struct Engine {
  language::LanguageTable table;  // the executor refers to it
  std::unique_ptr<executor::Executor> executor;
};

// `pool`: what the sandbox makes ahead of demand. `guest_writable`: real paths of directories that guests may have
// written to, where nothing is looked for or trusted.
Result<std::unique_ptr<Engine>> MakeEngine(async::Loop& loop, ExecutorKind kind, executor::PoolLimits pool = {},
                                           std::vector<std::string> guest_writable = {});

}  // namespace cella::session
