// Where the ipykernel of a session's own environment comes from: finished environments, which are built when they are
// missing. The port is implemented above the executors, because a build needs one of them. On the loop.
#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "run/stop.h"

namespace cella::executor {

struct KernelEnvironment {
  std::string venv;             // has ipykernel and pip; read-only, shared by sessions
  std::shared_ptr<void> lease;  // the environment is not removed while this lives
};

struct KernelPackages {
  std::string python;       // the base interpreter, in no virtual environment
  std::string environment;  // a finished environment whose packages it must have too; empty: none
  std::string venv;         // a virtual environment whose packages must keep their versions; empty: none
};

class KernelEnvironments {
 public:
  virtual ~KernelEnvironments() = default;
  // The error names the reason: no index can be reached, or no such package exists for this Python.
  virtual async::Task<Result<KernelEnvironment>> Find(KernelPackages packages, run::StopToken stop) = 0;
};

}  // namespace cella::executor
