#include "executor/container/container_guest.h"

#include <fcntl.h>

#include "confine/program_execution.h"
#include "confine/program_guest.h"
#include "executor/container/init_command.h"
#include "executor/container/inside.h"
#include "executor/sandbox/session_plan.h"
#include "language/detect.h"
#include "os/io.h"

namespace cella::executor {

using async::Task;

ContainerGuest::ContainerGuest(confine::LaunchContext& context, run::GuestSpec spec,
                               std::unique_ptr<Container> container, confine::LimitPlan limits, Isolation isolation)
    : context_(context),
      spec_(std::move(spec)),
      container_(std::move(container)),
      jail_(confine::Jail::Adopt(context.loop, container_->bridge().TakeControl(), [this] { container_->Destroy(); })),
      limits_(std::move(limits)),
      isolation_(std::move(isolation)),
      files_(container_->bridge()),
      workdir_(OpenWorkdir(spec_.policy)) {}

std::string ContainerGuest::LanguageOf(const RunSpec& run, const Block& block) const {
  auto found = language::Detect(context_.table, {block.language, run.file, block.code});
  return found ? (*found)->name : block.language;
}

confine::ProgramPlace ContainerGuest::Place() {
  static const os::Cgroup kNoCgroup;
  confine::ProgramPlace place{context_.loop, jail_, kNoCgroup, limits_};
  place.usage = [this] { return UsageOf(container_->bridge()); };
  return place;
}

Task<Status> ContainerGuest::Prepare(run::StopToken stop) {
  auto done = co_await RunInitCommand(Place(), spec_.policy, stop);
  if (done) container_->Keep();
  co_return done;
}

// As for another root tree: interpreters are looked up inside.
Task<Result<language::Plan>> ContainerGuest::MakeBlockPlan(const run::BlockTurn& turn) {
  Policy policy = spec_.policy;
  policy.rootfs = "/";
  auto plan = co_await confine::MakePlan(context_, policy, turn, language::Destination::kJail, "/tmp");
  co_return plan;
}

Task<Result<std::unique_ptr<run::Execution>>> ContainerGuest::Begin(const run::BlockTurn& turn, run::StopToken stop) {
  auto made = co_await MakeBlockPlan(turn);
  CO_TRY(language::Plan plan, std::move(made));
  if (!turn.run.out_dir.empty()) CO_TRY_VOID(files_.OpenOut(turn.run.out_dir, spec_.policy.limits.disk.value));
  reports_files_ = turn.run.list_files || !turn.run.out_dir.empty();
  static const std::vector<InputFile> kNone;
  if (reports_files_ && plan.save_only) {
    auto remembered = co_await files_.Remember();
    CO_TRY_VOID(remembered);
  }
  auto filled = co_await files_.Fill(turn.first ? turn.run.files : kNone, plan);
  CO_TRY_VOID(filled);
  if (reports_files_ && !plan.save_only) {
    auto remembered = co_await files_.Remember();
    CO_TRY_VOID(remembered);
  }
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  confine::Program program;
  confine::EnvVars variables = GuestVariablesInside(spec_, plan);
  ShowNames(spec_.spaces, kProgramsInside, &variables);
  program.env = variables.Encode();
  program.search_path = *variables.Find("PATH");
  program.cwd = confine::DirectoryOf(turn.run, kWorkspaceInside);
  program.plan = std::move(plan);
  if (turn.stdin_text) {
    const auto bytes = std::as_bytes(std::span<const char>(*turn.stdin_text));
    CO_TRY(program.standard_input, os::MakeMemfd("cella-stdin", bytes));
  } else if (turn.first && turn.run.stdin_fd >= 0) {
    program.standard_input.Reset(fcntl(turn.run.stdin_fd, F_DUPFD_CLOEXEC, 3));
    if (!program.standard_input) co_return SysErr(errno, "standard input");
  }
  co_return confine::StartProgram(Place(), std::move(program));
}

Task<Result<run::StateReport>> ContainerGuest::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  if (facts.place_gone) co_return run::StateReport{};
  if (reports_files_) {
    auto reported = co_await files_.Report(sink);
    // The container may end at any time: the result of the code stands.
    const bool gone = !reported && reported.error().code == ErrorCode::kClosed;
    if (!reported && !gone) co_return std::unexpected(std::move(reported.error()));
  }
  co_await files_.RemoveCode();
  co_return run::StateReport{};
}

Task<void> ContainerGuest::Close() {
  co_await jail_.End();
  co_await container_->End();
}

Task<run::GuestUsage> ContainerGuest::MeasureUsage() { return MeasureContainer(container_->bridge()); }

std::optional<uint64_t> ContainerGuest::MemoryUsed() const {
  const uint64_t used = container_->bridge().counters().memory;
  return used == 0 ? std::nullopt : std::optional(used);
}

}  // namespace cella::executor
