#include "executor/inprocess/plain_guest.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/sandbox/session_plan.h"
#include "executor/values.h"
#include "language/detect.h"

namespace cella::executor {
namespace {

using async::Task;

constexpr uint64_t kValueLimit = uint64_t{1} << 20;

}  // namespace

Task<Result<std::unique_ptr<run::Guest>>> PlainGuest::Open(confine::LaunchContext& context, const LocalHost& host,
                                                           LocalScratch scratch, run::GuestSpec spec,
                                                           const RunSpec* only) {
  const bool alone = only != nullptr && only->as == RunAs::kProgram;
  std::unique_ptr<PlainGuest> guest(new PlainGuest(context, host, std::move(scratch), std::move(spec), alone));
  const Policy& policy = guest->spec_.policy;
  const auto machine = confine::ObserveMachine(context.cgroups, confine::Confinement::kNone, policy.workdir.empty());
  auto limits = alone ? confine::PlanLimits(policy, machine) : confine::PlanSessionLimits(policy, machine);
  if (!limits) co_return std::unexpected(std::move(limits.error()));
  auto started = co_await guest->Start(std::move(*limits), "inprocess");
  CO_TRY_VOID(started);
  guest->isolation_.details["runs_as"] = "plain process";
  if (!alone) {
    guest->isolation_.start = "exec: plain process";
    started = co_await guest->files_->Remember();
    if (started) started = co_await guest->EnsureRunner();
  }
  if (!started) {
    co_await guest->Close();
    co_return std::unexpected(std::move(started.error()));
  }
  co_return std::unique_ptr<run::Guest>(std::move(guest));
}

Status CheckIsPython(const language::LanguageTable& table, const std::string& asked) {
  const language::Language* language = table.Find(asked.empty() ? "python" : asked);
  if (language == nullptr) {
    return Err(ErrorCode::kInvalid, "unknown language '{}': known are {}", asked, table.Names());
  }
  if (language->python) return {};
  return Err(ErrorCode::kInvalid, "the inprocess executor runs Python, not {}: use the sandbox executor",
             language->name);
}

const run::Traits& PlainGuest::traits(std::string_view language) const {
  return CheckLanguage(std::string(language)) ? run::kCells : run::kPrograms;
}

std::string PlainGuest::LanguageOf(const RunSpec& run, const Block& block) const {
  if (run.as == RunAs::kProgram) return LocalGuest::LanguageOf(run, block);
  const language::Language* found = context_.table.Find(block.language.empty() ? "python" : block.language);
  return found != nullptr ? found->name : block.language;
}

bool PlainGuest::takes_values(std::string_view language) const {
  return CheckLanguage(std::string(language)).has_value();
}

Task<Status> PlainGuest::EnsureTree() {
  jail_->TakeReports();
  if (!tree_ended_ && !jail_->gone()) co_return Status{};
  co_await EndTree();
  runner_.reset();
  auto started = co_await StartTree();
  if (started) tree_ended_ = false;
  co_return started;
}

Task<void> PlainGuest::EndTree() {
  if (std::exchange(tree_ended_, true)) co_return;
  if (jail_) co_await jail_->End();
}

bool PlainGuest::CanAddPackages() const {
  const bool listed = std::ranges::find(spec_.spaces, run::kPackagesSpace) != spec_.spaces.end();
  return listed && !alone_ && !context_.layers.empty();
}

void PlainGuest::AddToVariables(confine::EnvVars* variables) const {
  LocalGuest::AddToVariables(variables);
  ShowNames(spec_.spaces, context_.runners, variables);
}

// The code reads them where they are on the host. The interpreter that runs gets them with its next cell.
Task<Result<std::string>> PlainGuest::Use(std::string directory) {
  packages_ = directory.empty() ? "" : fmt::format("{}/{}", context_.layers, directory);
  co_return packages_;
}

Task<Result<language::Plan>> PlainGuest::PlanInterpreter() {
  const RunSpec run{};
  const Block block{.language = "python", .code = ""};
  const run::BlockTurn turn{run, block, 0, spec_.policy.limits};
  auto plan = co_await LocalGuest::PlanFor(turn);
  if (plan) CO_TRY_VOID(CheckPython(*plan));
  co_return plan;
}

Task<Status> PlainGuest::EnsureRunner() {
  auto ensured = co_await EnsureTree();
  CO_TRY_VOID(ensured);
  if (runner_ && runner_->IsReady()) co_return Status{};
  if (runner_) {
    // It ended between two runs, and what it has started goes with it.
    co_await EndTree();
    ensured = co_await EnsureTree();
    CO_TRY_VOID(ensured);
  }
  auto planned = co_await PlanInterpreter();
  CO_TRY(const language::Plan plan, std::move(planned));
  PlainRunnerPlace place{context_.loop, *context_.decoding, *jail_, cgroup_, limits_, {}, {}, cwd_, {}};
  place.argv = {plan.commands.front().argv.front(), context_.runners + "/python/cella_runner"};
  place.variables = confine::GuestEnvVars(Variables(plan), plan, spec_.policy);
  if (!spec_.spaces.empty()) confine::AddCalls(CallSocketPath(), context_.runners, &place.variables);
  if (CanAddPackages()) ShowPackages(packages_, context_.runners, CallSocketPath(), &place.variables);
  // The interpreter has the names already; programs that it starts find them.
  confine::EnvVars shown = place.variables;
  ShowNames(spec_.spaces, context_.runners, &shown);
  place.configuration.env = shown.variables();
  place.configuration.cwd = cwd_;
  place.configuration.network = true;
  place.configuration.value_limit = kValueLimit;
  place.configuration.assignments = spec_.policy.values_of_assignments;
  place.configuration.spaces = spec_.spaces;
  auto started = co_await PlainRunner::Start(std::move(place));
  if (!started) {
    co_await EndTree();
    co_return std::unexpected(std::move(started.error()));
  }
  runner_ = std::move(*started);
  isolation_.details["python"] = plan.commands.front().argv.front();
  co_return Status{};
}

Task<Status> PlainGuest::Prepare(const run::BlockTurn&) {
  auto ensured = co_await EnsureTree();
  co_return ensured;
}

Task<Result<language::Plan>> PlainGuest::PlanFor(const run::BlockTurn& turn) {
  auto language = language::Detect(context_.table, {turn.block.language, turn.run.file, turn.block.code});
  if (language) CO_TRY_VOID(CheckLanguage((*language)->name));
  auto plan = co_await LocalGuest::PlanFor(turn);
  co_return plan;
}

Task<Result<std::unique_ptr<run::Execution>>> PlainGuest::Begin(const run::BlockTurn& turn, run::StopToken stop) {
  is_cell_ = turn.run.as == RunAs::kCell;
  if (!is_cell_) {
    auto begun = co_await LocalGuest::Begin(turn, stop);
    co_return begun;
  }
  CO_TRY_VOID(CheckLanguage(turn.block.language));
  auto ensured = co_await EnsureRunner();
  CO_TRY_VOID(ensured);
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  runner_->DropLateOutput();
  runner::Cell cell;
  cell.run = turn.run.id;
  cell.number = turn.number;
  cell.code = turn.block.code;
  cell.stdin_text = turn.stdin_text;
  cell.input = turn.run.answers_input;
  cell.checkpoint = CheckpointMode::kOff;
  cell.packages = packages_;
  if (turn.first && !turn.run.files.empty()) {
    auto written = co_await files_->WriteInputs(turn.run.files);
    if (written) written = co_await files_->Remember();
    CO_TRY_VOID(written);
  }
  if (turn.first && !turn.run.variables.empty()) {
    const ValueWriter writer = WriterInto(*context_.files, files_->directory());
    PlacedValues placed;
    auto wrote = co_await PlaceValues(turn.run.variables, cwd_, PlaceInFiles::kLarge, writer, &placed);
    value_files_ = std::move(placed.files);
    if (!wrote) {
      RemoveValues(files_->directory(), &value_files_);
      co_return std::unexpected(std::move(wrote.error()));
    }
    cell.variables = std::move(placed.values);
  }
  co_return runner_->Run(std::move(cell));
}

Task<Result<run::StateReport>> PlainGuest::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  if (!is_cell_) {
    auto report = co_await LocalGuest::AfterBlock(facts, sink);
    co_return report;
  }
  run::StateReport report{facts.answer ? StateAfter::kKept : StateAfter::kLost, "off"};
  RemoveValues(files_->directory(), &value_files_);
  if (!facts.answer) co_await EndTree();
  auto reported = co_await files_->Report(sink);
  if (!reported) co_return std::unexpected(std::move(reported.error()));
  co_return report;
}

Task<Result<std::string>> PlainGuest::Ask(const std::string& language, CodeQuestion question, std::string code,
                                          size_t cursor) {
  CO_TRY_VOID(CheckLanguage(language));
  auto ensured = co_await EnsureRunner();
  CO_TRY_VOID(ensured);
  auto answer = co_await runner_->Ask(runner::EncodeQuestion(question, code, cursor));
  co_return answer;
}

Task<Status> PlainGuest::Reset() {
  co_await EndTree();
  auto ensured = co_await EnsureRunner();
  co_return ensured;
}

Task<run::GuestUsage> PlainGuest::MeasureUsage() {
  const bool has_interpreter = alone_ || (runner_ && runner_->IsConnected());
  if (tree_ended_) co_return run::GuestUsage{};
  auto usage = co_await LocalGuest::MeasureUsage();
  usage.alive = usage.alive && has_interpreter;
  co_return usage;
}

Task<void> PlainGuest::Close() { co_await EndTree(); }

}  // namespace cella::executor
