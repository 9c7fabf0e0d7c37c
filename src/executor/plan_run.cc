#include "executor/plan_run.h"

#include "executor/guest_run.h"
#include "executor/workspace.h"

namespace cella::executor {

Result<language::Plan> MakePlan(const language::LanguageTable& table, const language::HostEnv& host,
                                const RunRequest& request, const std::string& scratch_dir) {
  language::PlanOptions options;
  options.args = request.args;
  options.file_name = request.file_name;
  options.python = request.policy.python;
  options.venv = request.policy.venv;
  options.rootfs = request.policy.rootfs;
  options.scratch_dir = scratch_dir;
  options.host = host;
  return language::MakePlan(table, request.block, options);
}

async::Task<Result<Outcome>> RunPlan(async::Loop& loop, PlanRun run, RunRequest request, EventSink& sink,
                                     async::Event& cancel) {
  Workspace workspace(std::move(run.workspace));
  if (!request.out_dir.empty()) {
    CO_TRY_VOID(workspace.OpenOut(request.out_dir, request.policy.limits.disk.value));
  }
  const bool wants_files = request.list_files || !request.out_dir.empty();
  // What is only saved is itself the result; else the code is not a change that the run made.
  if (wants_files && run.plan.save_only) workspace.Remember();
  CO_TRY_VOID(workspace.Fill(request.files, run.plan));
  if (wants_files && !run.plan.save_only) workspace.Remember();

  Event started = StartedEvent{run.plan.language, std::move(run.isolation)};
  (void)co_await sink.Emit(std::move(started));

  GuestRunOptions options;
  options.plan = &run.plan;
  options.limits = &request.policy.limits;
  options.limit_plan = &run.limits;
  Environment environment = GuestEnvironment(std::move(run.environment), run.plan, request.policy);
  options.env = environment.Encode();
  options.search_path = *environment.Find("PATH");
  options.cwd = run.cwd;
  options.standard_input = std::move(request.standard_input);
  GuestRun guest(loop, run.launch, run.cgroup, sink, cancel);
  auto outcome = co_await guest.Run(std::move(options));

  if (outcome && wants_files) {
    auto reported = co_await workspace.Report(sink);
    if (!reported) outcome = std::unexpected(std::move(reported.error()));
  }
  if (!run.private_workspace) workspace.RemoveCode();
  co_await run.launch.End();
  co_return outcome;
}

}  // namespace cella::executor
