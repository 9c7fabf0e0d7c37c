// From a built jail (or tree) to the end of the run: files in, events out, commands, changed files, everything closed.
// What the executors with processes have in common.
#pragma once

#include <string>

#include "executor/environment.h"
#include "executor/executor.h"
#include "executor/launch.h"
#include "executor/limits.h"
#include "os/cgroup.h"
#include "os/directory.h"

namespace cella::executor {

// The plan of a request, for the host (or rootfs) that the policy names. Blocks while tools are asked.
Result<language::Plan> MakePlan(const language::LanguageTable& table, const language::HostEnv& host,
                                const RunRequest& request, const std::string& scratch_dir);

struct PlanRun {
  const language::Plan& plan;
  const LimitPlan& limits;
  Launch& launch;
  const os::Cgroup& cgroup;
  os::Directory workspace;
  bool private_workspace = true;
  Environment environment;  // of the executor; the plan's and the policy's are added
  std::string cwd;
  Isolation isolation;
};

async::Task<Result<Outcome>> RunPlan(async::Loop& loop, PlanRun run, RunRequest request, EventSink& sink,
                                     async::Event& cancel);

}  // namespace cella::executor
