#include "executor/sandbox/sandbox_guest.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>

#include "confine/guest_usage.h"
#include "confine/isolation.h"
#include "confine/jail_env_vars.h"
#include "confine/program_execution.h"
#include "confine/program_guest.h"
#include "executor/sandbox/forked_program.h"
#include "executor/sandbox/program_start.h"
#include "executor/sandbox/session_plan.h"
#include "executor/values.h"
#include "language/detect.h"
#include "os/pidfd.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

constexpr auto kWarmPatience = 1s;
// While others wait for the processors: a session that ends within this time never needed the checkpoint.
constexpr uint32_t kBusyCourtesyMs = 50;

// sh is not among them: it is the system's shell, and each of its blocks is a script.
bool KeepsState(std::string_view language) {
  return language == "python" || language == "javascript" || language == "bash";
}

}  // namespace

SandboxGuest::SandboxGuest(confine::LaunchContext& context, std::shared_ptr<WarmEnvironment> warm,
                           std::unique_ptr<confine::EmptyJail> jail, confine::LimitPlan limit_plan, run::GuestSpec spec,
                           async::ReadySet ready)
    : context_(context),
      warm_(std::move(warm)),
      jail_(std::move(jail)),
      limit_plan_(std::move(limit_plan)),
      spec_(std::move(spec)),
      files_(os::Directory(std::move(jail_->ready.workspace), confine::WorkspaceOwner(warm_->plan().identity)),
             confine::WhoseFiles(spec_.policy), *context.files),
      ready_(std::move(ready)),
      meter_(jail_->cgroup.OpenMeter()),
      cells_{context.loop,
             *context.decoding,
             ready_,
             jail_->jail,
             meter_,
             limit_plan_,
             -1,
             -1,
             jail_->ready.entry.size() > 1 ? os::IdOf(jail_->ready.entry[1].get()) : os::NamespaceId{},
             [this](const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
               OnCheckpoint(frame, std::move(copy));
             }},
      checkpoint_status_(FirstCheckpoint()),
      settling_(context.loop) {
  confine::EnvVars environment = warm_->plan().EnvVarsFor(spec_.policy);
  if (!spec_.spaces.empty()) confine::AddCalls(jail::kCallSocket, confine::kRunnersInside, &environment);
  if (CanAddPackages()) ShowPackages("", &environment);
  ShowNames(spec_.spaces, confine::kRunnersInside, &environment);
  env_ = environment.variables();
  search_path_ = *environment.Find("PATH");
}

async::Task<Result<std::unique_ptr<SandboxGuest>>> SandboxGuest::Open(confine::LaunchContext& context,
                                                                      std::shared_ptr<WarmEnvironment> warm,
                                                                      std::unique_ptr<confine::EmptyJail> jail,
                                                                      confine::LimitPlan limit_plan,
                                                                      run::GuestSpec spec, const RunSpec* only) {
  CO_TRY(async::ReadySet ready, async::ReadySet::Create(context.loop));
  CO_TRY_VOID(confine::CheckWatch(spec.policy, &limit_plan, jail->ready));
  std::unique_ptr<SandboxGuest> guest(new SandboxGuest(context, std::move(warm), std::move(jail), std::move(limit_plan),
                                                       std::move(spec), std::move(ready)));
  CO_TRY_VOID(OpenCellPipes(&guest->cells_, &guest->out_, &guest->err_));
  guest->isolation_ =
      confine::DescribeSandbox(guest->spec_.policy, guest->limit_plan_, context.cgroups, guest->jail_->ready);
  if (!guest->warm_->forks()) guest->jail_->CloseEntry();
  guest->isolation_.start = guest->warm_->forks() ? "fork" : "exec: " + guest->warm_->plan().no_fork;
  // A private workspace is empty.
  if (!guest->spec_.policy.workdir.empty()) {
    auto remembered = co_await guest->files_.Remember();
    if (!remembered) {
      co_await guest->Close();
      co_return std::unexpected(std::move(remembered.error()));
    }
  }
  guest->alone_ = only != nullptr && only->as == RunAs::kProgram;
  if (guest->alone_) co_return std::move(guest);
  auto started = co_await guest->EnsureRunner("python");
  if (!started) {
    co_await guest->Close();
    co_return std::unexpected(std::move(started.error()));
  }
  co_return std::move(guest);
}

async::Task<void> SandboxGuest::Warm() {
  Runner& runner = runners_["python"];
  Watch(&runner);
  auto payload = runner::EncodeRehearse();
  // If it fails, the session's first run reports it.
  (void)co_await runner.channel.Send(context_.loop, payload, async::Clock::now() + kWarmPatience);
}

bool SandboxGuest::IsFresh() {
  Runner& runner = runners_["python"];
  bool alive = runner && runner.runs == 0 && TakeIdleFrames(cells_, runner);
  checkpoint_status_ = FirstCheckpoint();
  return alive;
}

std::optional<uint64_t> SandboxGuest::MemoryUsed() const {
  if (!jail_->cgroup) return std::nullopt;
  return jail_->cgroup.MemoryUsed();
}

async::Task<run::GuestUsage> SandboxGuest::MeasureUsage() {
  std::vector<int> forked;
  bool connected = true;
  for (const auto& [language, runner] : runners_) {
    if (runner.pidfd) forked.push_back(runner.pidfd.get());
    connected = connected && (!runner || runner.IsConnected());
  }
  auto usage = co_await confine::MeasureGuest(context_, &jail_->jail, jail_->cgroup, std::move(forked));
  usage.alive = usage.alive && connected;
  co_return usage;
}

bool SandboxGuest::CanAddPackages() const {
  return std::ranges::find(spec_.spaces, run::kPackagesSpace) != spec_.spaces.end();
}

async::Task<Result<std::string>> SandboxGuest::Use(std::string directory) {
  packages_ = directory.empty() ? "" : fmt::format("{}/{}", confine::kLayersInside, directory);
  co_return packages_;
}

const run::Traits& SandboxGuest::traits(std::string_view language) const {
  const language::Language* found = context_.table.Find(language.empty() ? "python" : std::string(language));
  return found != nullptr && KeepsState(found->name) ? run::kCells : run::kPrograms;
}

std::string SandboxGuest::LanguageOf(const RunSpec& run, const Block& block) const {
  if (run.as == RunAs::kProgram) {
    auto detected = language::Detect(context_.table, {block.language, run.file, block.code});
    return detected ? (*detected)->name : block.language;
  }
  const language::Language* found = context_.table.Find(block.language.empty() ? "python" : block.language);
  return found != nullptr ? found->name : block.language;
}

async::Task<Result<std::unique_ptr<run::Execution>>> SandboxGuest::Begin(const run::BlockTurn& turn,
                                                                         run::StopToken stop) {
  block_language_.clear();
  if (turn.run.as == RunAs::kProgram) co_return co_await BeginProgram(turn);
  const std::string& named = turn.block.language;
  const language::Language* language = context_.table.Find(named.empty() ? "python" : named);
  if (language == nullptr) {
    co_return Err(ErrorCode::kInvalid, "unknown language '{}': known are {}", named, context_.table.Names());
  }
  if (!KeepsState(language->name)) co_return co_await BeginProgram(turn);
  block_language_ = language->name;
  co_return co_await BeginCell(language->name, turn, stop);
}

bool SandboxGuest::takes_values(std::string_view language) const {
  const language::Language* found = context_.table.Find(language.empty() ? "python" : std::string(language));
  return found != nullptr && TakesValues(found->name);
}

async::Task<Result<std::unique_ptr<run::Execution>>> SandboxGuest::BeginCell(const std::string& language,
                                                                             const run::BlockTurn& turn,
                                                                             run::StopToken stop) {
  co_await StopSettling();
  // The runner may have died between two runs; its checkpoint has the same state.
  Runner& runner = runners_[language];
  found_ = StateAfter::kKept;
  if (runner && !jail_->jail.ended()) {
    const bool bad = language == "python" && std::exchange(settled_badly_, false);
    if (bad || !TakeIdleFrames(cells_, runner)) {
      // The checkpoint has the state that the last run left, unless that checkpoint was still to come.
      const bool behind = language == "python" && checkpoint_due_;
      found_ = co_await Recover(language);
      if (found_ == StateAfter::kRolledBack && !behind) found_ = StateAfter::kKept;
    }
  }
  auto ensured = co_await EnsureRunner(language);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  DropLateOutput(cells_);
  Watch(&runner);

  runner::Cell cell;
  cell.run = turn.run.id;
  cell.number = turn.number;
  cell.code = turn.block.code;
  cell.stdin_text = turn.stdin_text;
  cell.input = turn.run.answers_input;
  cell.checkpoint = spec_.checkpoint;
  auto written = co_await WriteInputs(turn);
  if (!written) co_return std::unexpected(std::move(written.error()));
  if (turn.first && !turn.run.variables.empty()) {
    PlacedValues placed;
    const ValueWriter writer = WriterInto(*context_.decoding, files_.directory());
    cell.texts = TakesTexts(language);
    auto placing = cell.texts ? PlaceTexts(*context_.decoding, turn.run.variables, kCwd, writer, &placed)
                              : PlaceValues(turn.run.variables, kCwd, PlaceInFiles::kLarge, writer, &placed);
    auto wrote = co_await std::move(placing);
    value_files_ = std::move(placed.files);
    if (!wrote) {
      RemoveValues(files_.directory(), &value_files_);
      co_return std::unexpected(std::move(wrote.error()));
    }
    cell.variables = std::move(placed.values);
  }
  cell.packages = packages_;
  if (context_.starting != nullptr && context_.starting->waiting() > 0) cell.courtesy_ms = kBusyCourtesyMs;
  auto execution = std::make_unique<CellExecution>(cells_, runner, language == "python");
  execution->Begin(cell);
  co_return std::unique_ptr<run::Execution>(std::move(execution));
}

// Of a session. They are no change that the run made.
async::Task<Status> SandboxGuest::WriteInputs(const run::BlockTurn& turn) {
  if (alone_ || !turn.first || turn.run.files.empty()) co_return Status{};
  auto done = co_await files_.WriteInputs(turn.run.files);
  if (done) done = co_await files_.Remember();
  co_return done;
}

async::Task<Result<std::unique_ptr<run::Execution>>> SandboxGuest::BeginProgram(const run::BlockTurn& turn) {
  if (lost_) co_return std::unexpected(JailEnded());
  auto made = co_await confine::MakePlan(context_, spec_.policy, turn, language::Destination::kJail, "/tmp", kCwd);
  CO_TRY(language::Plan plan, std::move(made));
  for (const std::string& directory : plan.visible) {
    if (!warm_->plan().Shows(directory)) {
      co_return Err(ErrorCode::kUnsupported,
                    "'{}' needs '{}', which this session does not see: add it with --mount, or use cella run",
                    plan.language, directory);
    }
  }
  co_await StopSettling();
  static const std::vector<InputFile> kNone;
  auto written = co_await WriteInputs(turn);
  if (!written) co_return std::unexpected(std::move(written.error()));
  auto filled = co_await files_.Fill(alone_ && turn.first ? turn.run.files : kNone, plan, turn.run.runs_file);
  if (!filled) co_return std::unexpected(std::move(filled.error()));
  lists_files_ = turn.run.list_files;
  // The code of a program of its own is no change that it made.
  if (alone_ && lists_files_) {
    auto remembered = co_await files_.Remember();
    if (!remembered) co_return std::unexpected(std::move(remembered.error()));
  }
  confine::EnvVars env = confine::GuestEnvVars(confine::JailEnvVars(plan), plan, spec_.policy);
  // In a session other languages see what the session's own interpreters see.
  if (turn.run.as == RunAs::kCell) {
    for (const auto& [name, value] : env_) env.Set(name, value);
  } else if (!spec_.spaces.empty()) {
    confine::AddCalls(jail::kCallSocket, confine::kRunnersInside, &env);
  }
  if (CanAddPackages() || !packages_.empty()) ShowPackages(packages_, &env);
  if (turn.run.as == RunAs::kProgram) ShowNames(spec_.spaces, confine::kRunnersInside, &env);
  const bool forks = turn.run.as == RunAs::kProgram && WhyExec(spec_.policy, turn.run, plan, *warm_).empty();
  Result<std::unique_ptr<run::Execution>> execution = Err(ErrorCode::kInternal, "nothing was started");
  if (forks) {
    execution = co_await ForkProgram(turn, plan, env);
  } else {
    execution = ExecProgram(turn, std::move(plan), env);
  }
  if (!execution) files_.RemoveCode();
  co_return execution;
}

Result<std::unique_ptr<run::Execution>> SandboxGuest::ExecProgram(const run::BlockTurn& turn, language::Plan plan,
                                                                  const confine::EnvVars& env) {
  confine::Program program;
  program.plan = std::move(plan);
  program.env = env.Encode();
  program.search_path = *env.Find("PATH");
  program.cwd = confine::DirectoryOf(turn.run, kCwd);
  if (turn.stdin_text) {
    TRY(program.standard_input, os::MakeMemfd("cella-stdin", std::as_bytes(std::span<const char>(*turn.stdin_text))));
  }
  return confine::StartProgram({context_.loop, jail_->jail, jail_->cgroup, limit_plan_, !alone_}, std::move(program));
}

async::Task<Result<std::unique_ptr<run::Execution>>> SandboxGuest::ForkProgram(const run::BlockTurn& turn,
                                                                               const language::Plan& plan,
                                                                               const confine::EnvVars& env) {
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(os::Pipe out, os::MakeOutputPipe());
  CO_TRY(os::Pipe err, os::MakeOutputPipe());
  os::Pipe in;
  if (turn.stdin_text) {
    CO_TRY(in, os::MakePipe());
  } else {
    in.read.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in.read) co_return SysErr(errno, "open '/dev/null'");
  }
  const std::array<int, 3> stdio = {in.read.get(), out.write.get(), err.write.get()};
  auto newborn = co_await ForkInto(stdio, sockets.theirs.get());
  if (!newborn) co_return std::unexpected(std::move(newborn.error()));
  sockets.theirs.Reset();
  ForkedStart start{.newborn = std::move(*newborn),
                    .channel = {},
                    .out = std::move(out.read),
                    .err = std::move(err.read),
                    .input = std::move(in.write),
                    .input_text = turn.stdin_text.value_or(""),
                    .name = language::CodeName(plan, confine::DirectoryOf(turn.run, kCwd))};
  CO_TRY(start.channel, runner::Channel::Open(std::move(sockets.ours)));
  runner::Program program;
  program.argv = plan.commands.back().argv;
  program.env = env.variables();
  program.cwd = confine::DirectoryOf(turn.run, kCwd);
  // A program changes no packages of its interpreter: it has pip.
  std::ranges::remove_copy(spec_.spaces, std::back_inserter(program.spaces), run::kPackagesSpace);
  co_return StartForkedProgram({context_.loop, jail_->jail, jail_->cgroup, limit_plan_, !alone_}, std::move(start),
                               runner::EncodeProgram(program));
}

async::Task<run::StateReport> SandboxGuest::AfterCell(const run::RunFacts& facts) {
  const bool python = block_language_ == "python";
  run::StateReport report;
  report.checkpoint = python ? checkpoint_status_ : "off";
  Runner& runner = runners_[block_language_];
  if (!facts.answer) {
    lost_ = lost_ || facts.place_gone || jail_->jail.ended() || !warm_->alive();
    report.state = co_await Recover(block_language_);
    co_return report;
  }
  ++runner.runs;
  report.state = found_;
  if (python && spec_.checkpoint != CheckpointMode::kOff) {
    checkpoint_due_ = true;
    settling_.Add(Settle(runner));
  }
  co_return report;
}

async::Task<Result<run::StateReport>> SandboxGuest::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  run::StateReport report;
  if (block_language_.empty()) {
    if (!alone_) files_.RemoveCode();  // else it would be a change
  } else {
    RemoveValues(files_.directory(), &value_files_);
    report = co_await AfterCell(facts);
  }
  Result<void> reported = {};
  if (!alone_ || lists_files_) reported = co_await files_.Report(sink);
  files_.RemoveCode();
  if (!reported) co_return std::unexpected(std::move(reported.error()));
  co_return report;
}

async::Task<Status> SandboxGuest::Reset() {
  co_await StopSettling();
  lost_ = lost_ || jail_->jail.ended();
  if (lost_) co_return std::unexpected(JailEnded());
  for (auto& [language, runner] : runners_) {
    if (runner) Discard(&runner);
  }
  checkpoint_.reset();
  checkpoint_due_ = false;
  named_.clear();
  checkpoint_status_ = FirstCheckpoint();
  auto killed = co_await KillEverybody();
  if (!killed) co_return std::unexpected(std::move(killed.error()));
  auto ensured = co_await EnsureRunner("python");
  co_return ensured;
}

async::Task<void> SandboxGuest::Close() {
  co_await StopSettling();
  Watch(nullptr);
  ready_.Remove(jail_->jail.control_fd());
  runners_.clear();
  checkpoint_.reset();
  named_.clear();
  co_await jail_->End();
}

}  // namespace cella::executor
