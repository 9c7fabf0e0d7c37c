#include "executor/container/container_session.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "async/deadline.h"
#include "confine/program_execution.h"
#include "confine/program_guest.h"
#include "executor/container/container_cell.h"
#include "executor/container/init_command.h"
#include "executor/container/inside.h"
#include "executor/container/layer_reader.h"
#include "executor/container/python_inside.h"
#include "executor/sandbox/session_plan.h"
#include "executor/values.h"
#include "os/pidfd.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

constexpr auto kAnswerPatience = 20s;
constexpr uint64_t kValueLimit = uint64_t{1} << 20;

struct RunnerProgram {
  std::string_view language;
  std::vector<std::string> names;      // looked up inside, best first
  std::vector<std::string> arguments;  // behind the interpreter
};

// sh is not among them: it is the system's shell, and each of its blocks is a script.
const RunnerProgram* FindRunner(std::string_view language) {
  static const std::string kRunners = kProgramsInside;
  static const RunnerProgram kPrograms[] = {
      // -I: neither the guest's directory nor its environment variables decide what the runner imports.
      {"python", {"python3", "python"}, {"-I", kRunners + "/python/cella_runner"}},
      {"javascript", {"node", "nodejs"}, {kRunners + "/javascript/runner.js"}},
      {"bash", {"bash"}, {kRunners + "/bash/runner.bash"}},
  };
  for (const RunnerProgram& program : kPrograms) {
    if (program.language == language) return &program;
  }
  return nullptr;
}

}  // namespace

Error ContainerSession::Ended() {
  return Error{ErrorCode::kClosed, "the session's container has ended and its state is lost: open a new session", 0};
}

ContainerSession::ContainerSession(confine::LaunchContext& context, run::GuestSpec spec,
                                   std::unique_ptr<Container> container, confine::LimitPlan limits, Isolation isolation,
                                   async::ReadySet ready)
    : context_(context),
      spec_(std::move(spec)),
      container_(std::move(container)),
      jail_(confine::Jail::Adopt(context.loop, container_->bridge().TakeControl(), [this] { container_->Destroy(); })),
      limits_(std::move(limits)),
      isolation_(std::move(isolation)),
      files_(container_->bridge()),
      workdir_(OpenWorkdir(spec_.policy)),
      ready_(std::move(ready)),
      cells_{context.loop,
             *context.decoding,
             ready_,
             jail_,
             no_meter_,
             limits_,
             -1,
             -1,
             os::NamespaceId{},
             [this](const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
               OnCheckpoint(frame, std::move(copy));
             },
             true},
      checkpoint_status_(FirstCheckpoint()) {}

Task<Result<std::unique_ptr<run::Guest>>> ContainerSession::Open(confine::LaunchContext& context, run::GuestSpec spec,
                                                                 std::unique_ptr<Container> container,
                                                                 confine::LimitPlan limits, Isolation isolation,
                                                                 run::StopToken stop) {
  auto ready = async::ReadySet::Create(context.loop);
  if (!ready) {
    co_await container->End();
    co_return std::unexpected(std::move(ready.error()));
  }
  std::unique_ptr<ContainerSession> session(new ContainerSession(
      context, std::move(spec), std::move(container), std::move(limits), std::move(isolation), std::move(*ready)));
  session->isolation_.start = "exec: container";
  Status opened = OpenCellPipes(&session->cells_, &session->out_, &session->err_);
  if (opened) opened = co_await RunInitCommand(session->Place(), session->spec_.policy, stop);
  if (opened) opened = co_await session->files_.Remember();
  if (!opened) {
    co_await session->Close();
    co_return std::unexpected(std::move(opened.error()));
  }
  session->container_->Keep();
  co_return std::unique_ptr<run::Guest>(std::move(session));
}

const run::Traits& ContainerSession::traits(std::string_view language) const {
  const language::Language* found = context_.table.Find(language.empty() ? "python" : std::string(language));
  return found != nullptr && FindRunner(found->name) != nullptr ? run::kCells : run::kPrograms;
}

std::string ContainerSession::LanguageOf(const RunSpec&, const Block& block) const {
  const language::Language* found = context_.table.Find(block.language.empty() ? "python" : block.language);
  return found != nullptr ? found->name : block.language;
}

bool ContainerSession::takes_values(std::string_view language) const {
  const language::Language* found = context_.table.Find(language.empty() ? "python" : std::string(language));
  return found != nullptr && TakesValues(found->name);
}

std::optional<uint64_t> ContainerSession::MemoryUsed() const {
  const uint64_t used = container_->bridge().counters().memory;
  return used == 0 ? std::nullopt : std::optional(used);
}

Task<run::GuestUsage> ContainerSession::MeasureUsage() {
  const auto has_ended = [](const auto& each) { return each.second && !each.second.IsConnected(); };
  const bool connected = std::ranges::none_of(runners_, has_ended);
  auto usage = co_await MeasureContainer(container_->bridge());
  usage.alive = usage.alive && connected;
  co_return usage;
}

void ContainerSession::Watch(Runner* runner) {
  if (runner == watched_) return;
  if (watched_ != nullptr && *watched_) {
    ready_.Remove(watched_->channel.fd());
    if (watched_->pidfd) ready_.Remove(watched_->pidfd.get());
  }
  watched_ = runner;
  if (runner == nullptr) return;
  (void)ready_.Add(runner->channel.fd(), kKeyChannel);
  if (runner->pidfd) (void)ready_.Add(runner->pidfd.get(), kKeyProcess);
}

bool ContainerSession::HasEnded(const Runner& runner) const {
  return jail_.HasEnd(runner.tag) || (runner.pidfd && os::HasEnded(runner.pidfd.get()));
}

void ContainerSession::Discard(Runner& runner) {
  if (watched_ == &runner) Watch(nullptr);
  if (runner.group > 1) jail_.KillGuest(runner.group);
  runner = Runner{};
}

Task<Status> ContainerSession::AwaitReport(std::function<bool()> arrived) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  while (!arrived()) {
    if (jail_.gone()) co_return std::unexpected(Ended());
    auto readable = co_await async::WithDeadline(jail_.Readable(), deadline);
    if (!readable || !*readable) {
      container_->Destroy();
      co_return std::unexpected(Ended());
    }
    jail_.TakeReports();
  }
  co_return Status{};
}

Task<Result<Runner>> ContainerSession::StartRunner(const std::string& language) {
  const RunnerProgram* program = FindRunner(language);
  if (program == nullptr) co_return Err(ErrorCode::kUnsupported, "'{}' keeps no state", language);
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) co_return SysErr(errno, "open '/dev/null'");
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  const confine::EnvVars variables = Variables(language::Plan{});
  confine::ExecRequest request;
  request.env = variables.Encode();
  request.search_path = *variables.Find("PATH");
  request.cwd = kWorkspaceInside;
  request.limits = limits_.exec;
  request.kill_rest = false;
  Runner runner;
  CO_TRY(runner.channel, runner::Channel::Open(std::move(sockets.ours)));
  std::optional<Result<int>> started;
  for (const std::string& name : program->names) {
    request.program = name;
    request.argv = {name};
    request.argv.insert(request.argv.end(), program->arguments.begin(), program->arguments.end());
    CO_TRY(runner.tag, jail_.Exec(request, stdio, sockets.theirs.get()));
    auto arrived = [&] { return (started = jail_.TakeStart(runner.tag)).has_value(); };
    auto awaited = co_await AwaitReport(arrived);
    CO_TRY_VOID(awaited);
    if (*started || started->error().code != ErrorCode::kNotFound) break;
  }
  if (!*started && started->error().code == ErrorCode::kNotFound) {
    co_return Err(ErrorCode::kNotFound, "the image has no '{}': use an image with {}", program->names.front(),
                  language);
  }
  if (!*started) co_return std::unexpected(std::move(started->error()));
  runner.group = **started;
  runner::Configuration configuration;
  // The interpreter has the names already; programs that it starts find them.
  confine::EnvVars shown = variables;
  ShowNames(spec_.spaces, kProgramsInside, &shown);
  configuration.env = shown.variables();
  configuration.cwd = kWorkspaceInside;
  configuration.network = spec_.policy.network != Network::kNone;
  configuration.value_limit = kValueLimit;
  configuration.assignments = spec_.policy.values_of_assignments;
  configuration.spaces = spec_.spaces;
  auto payload = runner::EncodeConfigure(configuration);
  auto sent = co_await runner.channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  CO_TRY_VOID(sent);
  // Its answer shows that it handles signals: an interrupt of the first run must not kill it.
  auto answered = co_await Exchange(runner, runner::EncodeQuestion(CodeQuestion::kIsComplete, "", 0));
  if (!answered) {
    const std::string why = fmt::format("the image's {} does not run cella's runner", program->names.front());
    Discard(runner);
    co_return std::unexpected(std::move(answered.error()).WithContext(why));
  }
  Watch(nullptr);
  co_return std::move(runner);
}

Task<Status> ContainerSession::EnsureRunner(const std::string& language) {
  if (jail_.gone()) co_return std::unexpected(Ended());
  if (runners_[language]) co_return Status{};
  auto runner = co_await StartRunner(language);
  CO_TRY(runners_[language], std::move(runner));
  co_return Status{};
}

Task<Result<std::string>> ContainerSession::Exchange(Runner& runner, std::string payload,
                                                     std::optional<std::string> checkpoint) {
  Watch(&runner);
  auto answer = co_await AskRunner(cells_, runner, std::move(payload), kAnswerPatience, checkpoint);
  co_return answer;
}

Task<Result<std::string>> ContainerSession::Ask(const std::string& language, CodeQuestion question, std::string code,
                                                size_t cursor) {
  const language::Language* found = context_.table.Find(language);
  if (found == nullptr || FindRunner(found->name) == nullptr) {
    co_return Err(ErrorCode::kUnsupported, "'{}' keeps no state and knows no names", language);
  }
  auto ensured = co_await EnsureRunner(found->name);
  CO_TRY_VOID(ensured);
  auto payload = runner::EncodeQuestion(question, code, cursor);
  auto answer = co_await Exchange(runners_[found->name], std::move(payload));
  co_return answer;
}

Task<Result<std::unique_ptr<run::Execution>>> ContainerSession::Begin(const run::BlockTurn& turn, run::StopToken stop) {
  const std::string& named = turn.block.language;
  const language::Language* language = context_.table.Find(named.empty() ? "python" : named);
  if (language == nullptr) {
    co_return Err(ErrorCode::kInvalid, "unknown language '{}': known are {}", named, context_.table.Names());
  }
  block_language_.clear();
  jail_.TakeReports();
  // The code of the block may change its packages, and then the interpreter cannot be asked.
  if (CanAddPackages() && !python_ && !jail_.gone()) co_await AskPython(stop);
  oom_kills_before_ = container_->bridge().counters().oom_kills;
  if (turn.run.as == RunAs::kProgram || FindRunner(language->name) == nullptr) co_return co_await BeginProgram(turn);
  block_language_ = language->name;
  co_return co_await BeginCell(language->name, turn, stop);
}

Task<Result<std::unique_ptr<run::Execution>>> ContainerSession::BeginCell(const std::string& language,
                                                                          const run::BlockTurn& turn,
                                                                          run::StopToken stop) {
  found_ = StateAfter::kKept;
  if (Runner& known = runners_[language]; known && !jail_.gone()) {
    // It may have ended between two runs. The checkpoint has the state that the last run left, unless that checkpoint
    // was still to come.
    const bool idle = TakeIdleFrames(cells_, known);
    if (!idle || HasEnded(known)) {
      const bool behind = language == "python" && checkpoint_due_;
      found_ = co_await Recover(language);
      if (found_ == StateAfter::kRolledBack && !behind) found_ = StateAfter::kKept;
    }
  }
  auto ensured = co_await EnsureRunner(language);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  DropLateOutput(cells_);
  Runner& runner = runners_[language];
  Watch(&runner);
  runner::Cell cell;
  cell.run = turn.run.id;
  cell.number = turn.number;
  cell.code = turn.block.code;
  cell.stdin_text = turn.stdin_text;
  cell.input = turn.run.answers_input;
  cell.checkpoint = spec_.checkpoint;
  if (turn.first && !turn.run.files.empty()) {
    co_return Err(ErrorCode::kUnsupported, "files: a session in a container takes none with a run: write them first");
  }
  if (turn.first && !turn.run.variables.empty()) {
    PlacedValues placed;
    const ValueWriter writer = [this](std::string name, std::string_view content) {
      return files_.WriteNew(std::move(name), content);
    };
    cell.texts = TakesTexts(language);
    auto placing = cell.texts
                       ? PlaceTexts(*context_.decoding, turn.run.variables, kWorkspaceInside, writer, &placed)
                       : PlaceValues(turn.run.variables, kWorkspaceInside, PlaceInFiles::kLarge, writer, &placed);
    auto wrote = co_await std::move(placing);
    value_files_ = std::move(placed.files);
    if (!wrote) {
      co_await files_.Remove(std::exchange(value_files_, {}));
      co_return std::unexpected(std::move(wrote.error()));
    }
    cell.variables = std::move(placed.values);
  }
  cell.packages = packages_;
  auto execution = std::make_unique<CellExecution>(cells_, runner, language == "python");
  execution->Begin(cell);
  co_return std::make_unique<ContainerCell>(std::move(execution), container_->bridge());
}

Task<Result<language::Plan>> ContainerSession::PlanBlock(const run::BlockTurn& turn) {
  Policy policy = spec_.policy;
  policy.rootfs = "/";
  auto plan = co_await confine::MakePlan(context_, policy, turn, language::Destination::kJail, "/tmp");
  co_return plan;
}

confine::ProgramPlace ContainerSession::Place() {
  static const os::Cgroup kNoCgroup;
  confine::ProgramPlace place{context_.loop, jail_, kNoCgroup, limits_, true};
  place.usage = [this] { return UsageOf(container_->bridge()); };
  return place;
}

Task<Result<std::unique_ptr<run::Execution>>> ContainerSession::BeginProgram(const run::BlockTurn& turn) {
  if (jail_.gone()) co_return std::unexpected(Ended());
  auto made = co_await PlanBlock(turn);
  confine::Program program;
  CO_TRY(program.plan, std::move(made));
  auto filled = co_await files_.Fill({}, program.plan);
  CO_TRY_VOID(filled);
  confine::EnvVars variables = Variables(program.plan);
  ShowNames(spec_.spaces, kProgramsInside, &variables);
  program.env = variables.Encode();
  program.search_path = *variables.Find("PATH");
  program.cwd = confine::DirectoryOf(turn.run, kWorkspaceInside);
  if (turn.stdin_text) {
    const auto bytes = std::as_bytes(std::span<const char>(*turn.stdin_text));
    CO_TRY(program.standard_input, os::MakeMemfd("cella-stdin", bytes));
  }
  auto execution = confine::StartProgram(Place(), std::move(program));
  if (!execution) co_await files_.RemoveCode();
  co_return execution;
}

Task<Result<run::StateReport>> ContainerSession::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  run::StateReport report;
  if (block_language_.empty()) {
    co_await files_.RemoveCode();
  } else {
    co_await files_.Remove(std::exchange(value_files_, {}));
    report = co_await AfterCell(facts);
  }
  auto reported = co_await files_.Report(sink);
  const bool gone = !reported && reported.error().code == ErrorCode::kClosed;
  if (!reported && !gone) co_return std::unexpected(std::move(reported.error()));
  co_return report;
}

Task<run::StateReport> ContainerSession::AfterCell(const run::RunFacts& facts) {
  const bool python = block_language_ == "python";
  run::StateReport report;
  report.checkpoint = python ? checkpoint_status_ : "off";
  if (!facts.answer) {
    report.state = co_await Recover(block_language_);
    co_return report;
  }
  ++runners_[block_language_].runs;
  report.state = found_;
  checkpoint_due_ = checkpoint_due_ || (python && spec_.checkpoint != CheckpointMode::kOff);
  co_return report;
}

bool ContainerSession::CanAddPackages() const {
  return std::ranges::find(spec_.spaces, run::kPackagesSpace) != spec_.spaces.end();
}

confine::EnvVars ContainerSession::Variables(const language::Plan& plan) {
  confine::EnvVars variables = GuestVariablesInside(spec_, plan);
  if (CanAddPackages()) ShowPackages(packages_, &variables);
  return variables;
}

Task<void> ContainerSession::AskPython(run::StopToken stop) {
  auto answer = co_await executor::AskPython(Place(), spec_.policy, stop);
  if (answer) {
    python_ = run::GuestPython{.described = std::move(*answer), .executable = "", .sites = {}};
  } else if (!stop.ending()) {
    python_ = std::unexpected(std::move(answer.error()));
  }
}

Task<Result<std::string>> ContainerSession::Use(std::string directory) {
  if (jail_.gone()) co_return std::unexpected(Ended());
  if (directory.empty()) {
    packages_.clear();
    co_return packages_;
  }
  const std::string source = context_.layers + "/" + directory;
  auto open = [&] { return LayerReader::Open(source, directory); };
  auto opened = co_await context_.planning->Run(open);
  CO_TRY(LayerReader reader, std::move(opened));
  for (;;) {
    auto read = [&] { return reader.Next(); };
    auto batch = co_await context_.planning->Run(read);
    CO_TRY(std::vector<std::string> payloads, std::move(batch));
    if (payloads.empty()) break;
    auto sent = co_await container_->bridge().AskAll(agent::Kind::kPut, std::move(payloads));
    if (!sent) {
      if (sent.error().sys_errno == ENOSPC) sent.error().message += " (the limit of the session, --disk)";
      co_return std::unexpected(std::move(sent.error()).WithContext("send the packages into the container"));
    }
  }
  packages_ = fmt::format("{}/{}", agent::kPackagesInside, directory);
  co_return packages_;
}

Task<Status> ContainerSession::Reset() {
  if (jail_.gone()) co_return std::unexpected(Ended());
  for (auto& [language, runner] : runners_) {
    if (runner) Discard(runner);
  }
  checkpoint_.reset();
  checkpoint_due_ = false;
  named_.clear();
  checkpoint_status_ = FirstCheckpoint();
  jail_.KillGuest();
  auto killed = [this] { return jail_.TakeKilled(); };
  auto awaited = co_await AwaitReport(killed);
  co_return awaited;
}

Task<void> ContainerSession::Close() {
  Watch(nullptr);
  ready_.Remove(jail_.control_fd());
  runners_.clear();
  checkpoint_.reset();
  named_.clear();
  co_await jail_.End();
  co_await container_->End();
}

}  // namespace cella::executor
