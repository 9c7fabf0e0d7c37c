// A block that runs as programs, one after the other (compile, run), in a place that init watches: a jail, or an
// unconfined process tree. Output comes through pipes of each program's own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/descriptor.h"
#include "async/ready_set.h"
#include "async/task_group.h"
#include "confine/jail.h"
#include "confine/limits.h"
#include "language/plan.h"
#include "os/cgroup.h"
#include "run/executor.h"

namespace cella::confine {

// Where programs run. All of it outlives the execution.
struct ProgramPlace {
  async::Loop& loop;
  Jail& jail;
  const os::Cgroup& cgroup;  // may be empty
  const LimitPlan& limits;
  bool shared = false;  // a session's runners live here too: signals go to the program's group alone
  // Of a place whose cgroup is out of reach: what it counted. Empty: `cgroup` has it.
  std::function<std::optional<os::CgroupUsage>()> usage{};
};

struct Program {
  language::Plan plan;
  std::vector<std::string> env;  // "K=V"
  std::string search_path;
  std::string cwd;
  UniqueFd standard_input;  // empty: /dev/null
};

// Asks init to start the first command. An Error is ours.
Result<std::unique_ptr<run::Execution>> StartProgram(const ProgramPlace& place, Program program);

}  // namespace cella::confine
