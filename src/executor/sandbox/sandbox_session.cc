#include "executor/sandbox/sandbox_session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "async/deadline.h"
#include "executor/cause.h"
#include "executor/guest_run.h"
#include "executor/launch_errors.h"
#include "executor/sandbox/isolation.h"
#include "executor/workspace.h"
#include "os/pidfd.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

constexpr const char* kCwd = "/workspace";
constexpr uint64_t kValueLimit = uint64_t{1} << 20;
// For a runner that answers questions or takes a checkpoint; code does not run meanwhile.
constexpr auto kAnswerPatience = 10s;

class ResultlessSink : public EventSink {
 public:
  async::Task<bool> Emit(Event) override { co_return true; }
};

struct StreamSockets {
  UniqueFd ours;
  UniqueFd theirs;
};

Result<StreamSockets> MakeStreamSockets() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) return SysErr(errno, "make a socket pair");
  return StreamSockets{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Error JailEnded() {
  return Error{ErrorCode::kClosed, "the session's jail has ended and its state is lost: open a new session", 0};
}

}  // namespace

SandboxSession::SandboxSession(LaunchContext& context, std::shared_ptr<WarmEnvironment> warm,
                               std::unique_ptr<Shell> shell, LimitPlan limit_plan, SessionRequest request,
                               async::ReadySet ready)
    : context_(context),
      warm_(std::move(warm)),
      shell_(std::move(shell)),
      limit_plan_(std::move(limit_plan)),
      request_(std::move(request)),
      files_(os::Directory(std::move(shell_->ready.workspace), WorkspaceOwner(warm_->plan().identity))),
      ready_(std::move(ready)),
      meter_(shell_->cgroup.OpenMeter()),
      parts_{context.loop,
             ready_,
             shell_->launch,
             meter_,
             limits_,
             limit_plan_,
             -1,
             -1,
             shell_->ready.namespaces.size() > 1 ? shell_->ready.namespaces[1].get() : -1,
             [this](const language::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
               OnCheckpoint(frame, std::move(copy));
             }},
      limits_(request_.policy.limits),
      checkpoint_status_(FirstCheckpoint()),
      settling_(context.loop) {
  Environment environment = warm_->plan().EnvironmentFor(request_.policy);
  env_ = environment.variables();
  search_path_ = *environment.Find("PATH");
}

async::Task<Result<std::unique_ptr<SandboxSession>>> SandboxSession::Open(LaunchContext& context,
                                                                          std::shared_ptr<WarmEnvironment> warm,
                                                                          std::unique_ptr<Shell> shell,
                                                                          LimitPlan limit_plan,
                                                                          SessionRequest request) {
  CO_TRY(async::ReadySet ready, async::ReadySet::Create(context.loop));
  CO_TRY_VOID(CheckWatch(request.policy, &limit_plan, shell->ready));
  std::unique_ptr<SandboxSession> session(new SandboxSession(
      context, std::move(warm), std::move(shell), std::move(limit_plan), std::move(request), std::move(ready)));
  CO_TRY_VOID(session->OpenPipes());
  session->isolation_ =
      DescribeSandbox(session->request_.policy, session->limit_plan_, context.cgroups, session->shell_->ready);
  session->isolation_.start = session->warm_->forks() ? "fork" : "exec: " + session->warm_->plan().no_fork;
  // A private workspace is empty.
  if (!session->request_.policy.workdir.empty()) session->files_.Remember();
  auto started = co_await session->EnsureRunner("python");
  if (!started) {
    co_await session->Close();
    co_return std::unexpected(std::move(started.error()));
  }
  co_return std::move(session);
}

async::Task<void> SandboxSession::Warm() {
  Runner& runner = runners_["python"];
  Watch(&runner);
  language::RunnerCell cell;
  cell.run = "warm";
  cell.code = "None";
  cell.checkpoint = language::CheckpointMode::kOff;
  ResultlessSink nowhere;
  CellRun run(parts_, runner, nowhere);
  auto end = co_await run.Run(cell, limits_.timeout.value);
  if (!end || !end->done) Discard(&runner);
}

bool SandboxSession::IsFresh() {
  Runner& runner = runners_["python"];
  bool alive = runner && runner.runs == 0 && CellRun::TakeIdleFrames(parts_, runner);
  checkpoint_status_ = FirstCheckpoint();
  return alive;
}

std::optional<uint64_t> SandboxSession::MemoryUsed() const {
  if (!shell_->cgroup) return std::nullopt;
  return shell_->cgroup.MemoryUsed();
}

// A fresh interpreter stands behind the first run.
std::string SandboxSession::FirstCheckpoint() const {
  return request_.checkpoint == language::CheckpointMode::kOff ? "off" : "taken";
}

// The checkpoint of the last run is on its way; the one before it goes when it is here.
async::Task<void> SandboxSession::Settle(Runner& runner) {
  UniqueFd own(fcntl(runner.channel.fd(), F_DUPFD_CLOEXEC, 3));
  if (!own) co_return;
  async::Descriptor arrival(context_.loop, std::move(own), async::Sharing::kShared);
  bool readable = co_await arrival.Readable();
  // If it is not a runner any more, the next run finds out.
  if (readable && runner) settled_badly_ = !CellRun::TakeIdleFrames(parts_, runner);
}

async::Task<void> SandboxSession::StopSettling() {
  settling_.Cancel();
  return settling_.Join();
}

Status SandboxSession::OpenPipes() {
  TRY(out_, os::MakePipe());
  TRY(err_, os::MakePipe());
  for (const os::Pipe* pipe : {&out_, &err_}) {
    if (fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) < 0) return SysErr(errno, "make a pipe");
  }
  null_ = UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_) return SysErr(errno, "open '/dev/null'");
  parts_.out = out_.read.get();
  parts_.err = err_.read.get();
  TRY_VOID(ready_.Add(parts_.out, kKeyOut));
  TRY_VOID(ready_.Add(parts_.err, kKeyErr));
  return ready_.Add(shell_->launch.control_fd(), kKeyControl);
}

async::Task<Status> SandboxSession::EnsureRunner(const std::string& language) {
  lost_ = lost_ || shell_->launch.ended();
  if (lost_) co_return std::unexpected(JailEnded());
  if (runners_[language]) co_return Status{};
  // Braces of two kinds of task do not mix.
  Result<Runner> runner = Err(ErrorCode::kInternal, "no runner");
  if (language == "python" && warm_->forks()) {
    runner = co_await ForkRunner();
  } else {
    runner = co_await ExecRunner(language);
  }
  if (!runner) co_return std::unexpected(std::move(runner.error()));
  runners_[language] = std::move(*runner);
  language::RunnerConfiguration configuration;
  configuration.env = env_;
  configuration.cwd = kCwd;
  configuration.network = request_.policy.network == Network::kHost;
  configuration.value_limit = kValueLimit;
  auto payload = language::EncodeConfigure(configuration);
  auto sent = co_await runners_[language].channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  co_return sent;
}

async::Task<Result<Runner>> SandboxSession::ForkRunner() {
  CO_TRY(StreamSockets sockets, MakeStreamSockets());
  const std::array<int, 3> stdio = {null_.get(), out_.write.get(), err_.write.get()};
  if (shell_->launch.ended()) {
    lost_ = true;
    co_return std::unexpected(JailEnded());
  }
  auto newborn = co_await warm_->Fork(*shell_, limit_plan_, stdio, sockets.theirs.get());
  if (!newborn) co_return std::unexpected(std::move(newborn.error()));
  Runner runner;
  CO_TRY(runner.channel, language::RunnerChannel::Open(std::move(sockets.ours)));
  runner.pidfd = std::move(newborn->process.pidfd);
  // While it lives: later nobody could tell what belonged to it.
  if (auto pids = os::NamespacePids(runner.pidfd.get())) runner.group = pids->back();
  runner.tag = newborn->process.tag;
  runner.zygote = std::move(newborn->zygote);
  co_return std::move(runner);
}

async::Task<Result<Runner>> SandboxSession::ExecRunner(const std::string& language) {
  auto interpreter = warm_->plan().interpreters.find(language);
  if (interpreter == warm_->plan().interpreters.end()) {
    auto plan = PlanLanguage(context_, request_.policy, {language, ""});
    if (!plan) co_return std::unexpected(std::move(plan.error()));
    co_return Err(ErrorCode::kUnsupported, "'{}' was not there when the session began: open a new one", language);
  }
  CO_TRY(StreamSockets sockets, MakeStreamSockets());
  const std::array<int, 3> stdio = {null_.get(), out_.write.get(), err_.write.get()};
  ExecRequest request;
  request.argv = interpreter->second.argv;
  for (const auto& [name, value] : env_) request.env.push_back(fmt::format("{}={}", name, value));
  request.search_path = search_path_;
  request.cwd = kCwd;
  request.limits = limit_plan_.exec;
  request.kill_rest = false;
  std::vector<std::string> names = interpreter->second.plan.commands.front().candidates;
  if (names.empty()) names.push_back(request.argv.front());
  Runner runner;
  CO_TRY(runner.channel, language::RunnerChannel::Open(std::move(sockets.ours)));
  Result<Launch::Received> received = Err(ErrorCode::kNotFound, "no interpreter");
  for (const std::string& name : names) {
    request.program = request.argv.front() = name;
    auto asked = shell_->launch.Exec(request, stdio, sockets.theirs.get());
    if (!asked) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    runner.tag = *asked;
    // The answer may come behind the end of some other program.
    for (bool answered = false; !answered;) {
      bool heard = co_await HearInit();
      if (!heard) co_return std::unexpected(JailEnded());
      received = shell_->launch.Receive();
      answered = !received || received->gone;
      if (answered || !received->report) continue;
      if (received->report->kind == jail::ReportKind::kExited) shell_->launch.KeepEnd(*received->report);
      answered = received->report->kind == jail::ReportKind::kStarted && received->report->tag == runner.tag;
    }
    if (received || received.error().code != ErrorCode::kNotFound) break;
  }
  if (!received) co_return std::unexpected(std::move(received.error()));
  if (received->gone) {
    lost_ = true;
    co_return std::unexpected(JailEnded());
  }
  runner.group = received->report->pid;
  co_return std::move(runner);
}

void SandboxSession::Watch(Runner* runner) {
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

void SandboxSession::Discard(Runner* runner) {
  if (watched_ == runner) Watch(nullptr);
  // Its socket closes, which a well-behaved one takes as its end. The others are killed, by init: a descriptor that
  // came from a guest is nothing to send signals through.
  if (runner->group == 0 && runner->pidfd) {
    auto pids = os::NamespacePids(runner->pidfd.get());
    if (pids) runner->group = pids->back();
  }
  if (runner->group > 1) shell_->launch.KillGuest(runner->group);
  *runner = Runner{};
}

void SandboxSession::DropLateOutput() {
  std::array<char, 65536> buffer;
  for (int fd : {parts_.out, parts_.err}) {
    for (int round = 0; round < 32; ++round) {
      if (os::RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); }) <= 0) break;
    }
  }
}

void SandboxSession::OnCheckpoint(const language::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
  const bool taken = frame.status == "taken" && copy;
  std::string status = taken                              ? "taken"
                       : frame.status.starts_with("skip") ? frame.status
                       : frame.status == "off"            ? "off"
                                                          : "skipped: it did not arrive";
  if (frame.name.empty()) {
    checkpoint_status_ = std::move(status);
    checkpoint_ = std::move(copy);
    return;
  }
  // A guest may announce what nobody asked for.
  if (frame.name != asked_name_) return;
  arrived_ = status;
  if (taken && (named_.contains(frame.name) || named_.size() < kMaxNamedCheckpoints)) {
    named_[frame.name] = std::move(*copy);
  }
}

async::Task<Result<CellEnd>> SandboxSession::Run(Cell cell, EventSink& sink) {
  const language::Language* language =
      context_.table.Find(cell.block.language.empty() ? "python" : cell.block.language);
  if (language == nullptr) {
    co_return Err(ErrorCode::kInvalid, "unknown language '{}': known are {}", cell.block.language,
                  context_.table.Names());
  }
  cancel_asked_ = false;
  limits_ = request_.policy.limits;
  if (cell.timeout > 0ns) limits_.timeout.value = cell.timeout;
  // Of the languages with state, sh is not one: it is the system's, and each of its blocks a script.
  const bool keeps_state = language->name == "python" || language->name == "javascript" || language->name == "bash";
  Result<CellEnd> end = Err(ErrorCode::kInternal, "no run");
  if (keeps_state) {
    end = co_await RunCell(language->name, std::move(cell), sink);
  } else {
    end = co_await RunProgram(std::move(cell), sink);
  }
  co_return end;
}

async::Task<Result<CellEnd>> SandboxSession::RunCell(const std::string& language, Cell cell, EventSink& sink) {
  const async::TimePoint started = async::Clock::now();
  co_await StopSettling();
  // It may have died between two runs; what it stood on is as good.
  Runner& runner = runners_[language];
  StateAfter found = StateAfter::kKept;
  if (runner && !shell_->launch.ended()) {
    const bool bad = language == "python" && std::exchange(settled_badly_, false);
    // What stood behind the next run is what the last one left: nothing is lost with it.
    if (bad || !CellRun::TakeIdleFrames(parts_, runner)) found = co_await Recover(language);
  }
  auto ensured = co_await EnsureRunner(language);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  DropLateOutput();
  Watch(&runner);

  language::RunnerCell request;
  request.run = cell.run_id;
  request.number = cell.number;
  request.code = std::move(cell.block.code);
  request.stdin_text = std::move(cell.stdin_text);
  request.input = cell.answers_input;
  request.checkpoint = request_.checkpoint;
  oom_kills_ = meter_.OomKills();
  refused_forks_ = meter_.RefusedForks();
  CellRun run(parts_, runner, sink);
  if (cancel_asked_) run.Cancel();
  running_ = &run;
  auto end = co_await run.Run(request, limits_.timeout.value);
  running_ = nullptr;
  if (!end) co_return std::unexpected(std::move(end.error()));
  if (!end->done && runner.zygote) {
    // It never got as far as being a guest: that is ours to explain.
    if (auto failure = runner.zygote->TakeFailure(runner.tag)) {
      Discard(&runner);
      co_return std::unexpected(ExplainExecFailure(*failure));
    }
  }
  auto judged = co_await Judge(language, std::move(*end), started);
  if (found == StateAfter::kLost && judged.state == StateAfter::kKept) judged.state = found;
  if (language == "python" && runner && request_.checkpoint != language::CheckpointMode::kOff) {
    settling_.Add(Settle(runner));
  }
  auto reported = co_await files_.Report(sink);
  if (!reported) co_return std::unexpected(std::move(reported.error()));
  co_return judged;
}

async::Task<Result<CellEnd>> SandboxSession::RunProgram(Cell cell, EventSink& sink) {
  if (lost_) co_return std::unexpected(JailEnded());
  CO_TRY(language::Plan plan, PlanLanguage(context_, request_.policy, cell.block));
  for (const std::string& directory : plan.visible) {
    if (!warm_->plan().Shows(directory)) {
      co_return Err(ErrorCode::kUnsupported,
                    "'{}' needs '{}', which this session does not see: add it with --mount, or use cella run",
                    plan.language, directory);
    }
  }
  co_await StopSettling();
  CO_TRY_VOID(files_.Fill({}, plan));
  GuestRunOptions options;
  options.plan = &plan;
  options.limits = &limits_;
  options.limit_plan = &limit_plan_;
  for (const auto& [name, value] : env_) options.env.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : plan.env) options.env.push_back(fmt::format("{}={}", name, value));
  options.search_path = search_path_;
  options.cwd = kCwd;
  options.in_session = true;
  if (cell.stdin_text) {
    CO_TRY(options.standard_input,
           os::MakeMemfd("cella-stdin", std::as_bytes(std::span<const char>(*cell.stdin_text))));
  }
  async::Event cancel(context_.loop);
  cancel_program_ = &cancel;
  if (cancel_asked_) cancel.Set();
  GuestRun run(context_.loop, shell_->launch, shell_->cgroup, sink, cancel);
  auto outcome = co_await run.Run(std::move(options));
  cancel_program_ = nullptr;
  files_.RemoveCode();
  if (!outcome) co_return std::unexpected(std::move(outcome.error()));
  auto reported = co_await files_.Report(sink);
  if (!reported) co_return std::unexpected(std::move(reported.error()));
  CellEnd end;
  end.outcome = std::move(*outcome);
  end.state = StateAfter::kNone;
  co_return std::move(end);
}

SandboxSession::Trouble SandboxSession::LookForTrouble() const {
  return {meter_.OomKills() > oom_kills_, meter_.RefusedForks() > refused_forks_};
}

async::Task<std::optional<int>> SandboxSession::EndOf(const Runner& runner, const RunEnd& end) {
  if (end.wait_status) co_return end.wait_status;
  if (!runner.zygote) {
    auto report = shell_->launch.TakeEnd(runner.tag);
    co_return report ? std::optional<int>(report->wait_status) : std::nullopt;
  }
  if (!runner.pidfd || !os::HasEnded(runner.pidfd.get())) co_return std::nullopt;
  auto status = co_await runner.zygote->WaitStatus(runner.tag);
  co_return status;
}

async::Task<CellEnd> SandboxSession::Judge(const std::string& language, RunEnd end, async::TimePoint started) {
  CellEnd cell;
  Outcome& outcome = cell.outcome;
  cell.checkpoint = language == "python" ? checkpoint_status_ : "off";
  cell.state = StateAfter::kKept;
  outcome.usage.wall_ms = std::chrono::duration<double, std::milli>(async::Clock::now() - started).count();
  outcome.usage.peak_memory = meter_.PeakMemory().value_or(0);
  if (auto cpu = meter_.Cpu()) {
    outcome.usage.cpu_ms = std::chrono::duration<double, std::milli>(*cpu - end.cpu).count();
  } else if (end.done) {
    outcome.usage.cpu_ms = end.done->cpu_ms;
  }
  outcome.error = std::move(end.error);
  Cause cause = end.cancelled ? Cause::kCancel : end.timed_out ? Cause::kWallTime : Cause::kNone;
  Runner& runner = runners_[language];
  if (end.done) {
    using Status = language::DoneFrame::Status;
    outcome.exit_code = end.done->exit_code;
    outcome.displays_dropped = end.done->displays_dropped;
    const bool failed =
        end.done->status == Status::kError || end.done->status == Status::kInterrupted || outcome.exit_code != 0;
    if (failed && outcome.exit_code == 0) outcome.exit_code = 1;
    outcome.status = failed ? RunStatus::kError : RunStatus::kOk;
    // A child of the code may have been the victim, and the code said so in its own way.
    if (cause == Cause::kNone && failed) {
      Trouble trouble = LookForTrouble();
      cause = trouble.oom_kill ? Cause::kMemory : trouble.refused_fork ? Cause::kProcesses : Cause::kNone;
    }
    ++runner.runs;
  } else {
    auto status = co_await EndOf(runner, end);
    const bool signaled = !status || WIFSIGNALED(*status);
    if (signaled) outcome.signal = status ? WTERMSIG(*status) : SIGKILL;
    outcome.exit_code = signaled ? 128 + *outcome.signal : WEXITSTATUS(*status);
    outcome.status = signaled ? RunStatus::kCrashed : outcome.exit_code == 0 ? RunStatus::kOk : RunStatus::kError;
    const bool oom = LookForTrouble().oom_kill || end.breach == jail::KillReason::kMemory;
    if (cause == Cause::kNone) {
      cause = oom                                          ? Cause::kMemory
              : end.out_of_cpu_time                        ? Cause::kProcessorTime
              : end.breach == jail::KillReason::kCpuTime   ? Cause::kProcessorTime
              : end.breach == jail::KillReason::kProcesses ? Cause::kProcesses
              : signaled && *outcome.signal == SIGXFSZ     ? Cause::kFileSize
                                                           : Cause::kNone;
    }
    if (cause == Cause::kNone && !outcome.error) {
      if (end.jail_gone) {
        outcome.status = RunStatus::kCrashed;
        outcome.error = RunError{"JailEnded", "the session's jail was ended from outside", ""};
      } else if (end.broke_protocol) {
        outcome.status = RunStatus::kCrashed;
        outcome.error = RunError{"RunnerLost", "the code wrote to the session's own channel", ""};
      } else if (!status) {
        outcome.error = RunError{"RunnerLost", "the interpreter ended, and nobody can tell how", ""};
      }
    }
    lost_ = lost_ || end.jail_gone || shell_->launch.ended() || !warm_->alive();
    cell.state = co_await Recover(language);
  }
  ApplyCause(cause, limits_, &outcome);
  co_return cell;
}

Runner SandboxSession::Promote(RunnerCopy copy, const std::shared_ptr<Zygote>& zygote) {
  Runner runner;
  runner.channel = std::move(copy.channel);
  runner.zygote = zygote;
  auto pids = os::NamespacePids(copy.pidfd.get());
  if (pids && pids->size() >= 2) {
    runner.group = pids->back();
    runner.tag = zygote ? zygote->Adopt((*pids)[pids->size() - 2]) : shell_->launch.Adopt(runner.group);
  }
  runner.pidfd = std::move(copy.pidfd);
  runner.runs = 1;
  return runner;
}

async::Task<StateAfter> SandboxSession::Recover(const std::string& language) {
  Runner& runner = runners_[language];
  const bool fresh = runner.runs == 0;
  const std::shared_ptr<Zygote> zygote = runner.zygote;
  // Whatever belonged to the run goes with it.
  if (runner.group > 1) shell_->launch.KillGuest(runner.group);
  Discard(&runner);
  if (lost_) co_return StateAfter::kLost;
  if (language != "python") co_return StateAfter::kLost;
  std::optional<RunnerCopy> copy = std::exchange(checkpoint_, std::nullopt);
  if (copy && !os::HasEnded(copy->pidfd.get())) {
    runner = Promote(std::move(*copy), zygote);
    auto covered = co_await AskForCheckpoint(runner, "");
    if (covered) co_return StateAfter::kRolledBack;
    Discard(&runner);
  }
  checkpoint_status_ = FirstCheckpoint();
  co_return fresh ? StateAfter::kRolledBack : StateAfter::kLost;
}

void SandboxSession::Interrupt() {
  if (running_ != nullptr) running_->Interrupt();
  if (cancel_program_ != nullptr) cancel_program_->Set();
}

void SandboxSession::Cancel() {
  // Also for a run that is still being prepared.
  cancel_asked_ = true;
  if (running_ != nullptr) running_->Cancel();
  if (cancel_program_ != nullptr) cancel_program_->Set();
}

async::Task<Status> SandboxSession::Reply(std::optional<std::string> text) {
  if (running_ == nullptr || watched_ == nullptr) co_return Err(ErrorCode::kInvalid, "nothing waits for input");
  auto payload = language::EncodeInputReply(text);
  auto sent = co_await watched_->channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  co_return sent;
}

async::Task<Result<std::string>> SandboxSession::Exchange(Runner& runner, std::string payload,
                                                          std::optional<std::string> checkpoint_name) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  auto sent = co_await runner.channel.Send(context_.loop, payload, deadline);
  if (!sent) co_return std::unexpected(std::move(sent.error()));
  Watch(&runner);
  ready_.SetDeadline(deadline);
  while (async::Clock::now() < deadline) {
    auto arrival = runner.channel.Receive();
    if (!arrival) co_return std::unexpected(std::move(arrival.error()));
    while (auto next = runner.channel.Next()) {
      auto frame = language::DecodeFrame(*next);
      if (!frame) co_return std::unexpected(std::move(frame.error()));
      auto* answer = std::get_if<language::AnswerFrame>(&*frame);
      if (answer != nullptr && !checkpoint_name) co_return std::move(answer->json);
      if (auto* checkpoint = std::get_if<language::CheckpointFrame>(&*frame)) {
        CellRun::TakeCheckpoint(parts_, runner, *checkpoint);
        // One that an earlier run left behind may come first.
        if (checkpoint_name == checkpoint->name) co_return checkpoint->status;
      }
    }
    if (*arrival == language::RunnerChannel::Arrival::kClosed) {
      co_return Err(ErrorCode::kClosed, "the interpreter has ended");
    }
    if (*arrival == language::RunnerChannel::Arrival::kSome) continue;
    // Output of background threads is not for us; it waits for the next run.
    ready_.Remove(parts_.out);
    ready_.Remove(parts_.err);
    auto keys = co_await ready_.Wait();
    (void)ready_.Add(parts_.out, kKeyOut);
    (void)ready_.Add(parts_.err, kKeyErr);
    for (int key : keys) {
      if (key == kKeyProcess) co_return Err(ErrorCode::kClosed, "the interpreter has ended");
      if (key != kKeyControl) continue;
      auto received = shell_->launch.Receive();
      if (!received || received->gone) {
        lost_ = true;
        co_return std::unexpected(JailEnded());
      }
      if (received->report && received->report->kind == jail::ReportKind::kExited) {
        shell_->launch.KeepEnd(*received->report);
        if (!runner.zygote && received->report->tag == runner.tag) {
          co_return Err(ErrorCode::kClosed, "the interpreter has ended");
        }
      }
    }
  }
  co_return Err(ErrorCode::kClosed, "the interpreter does not answer");
}

async::Task<Result<std::string>> SandboxSession::Ask(const std::string& language, language::Question question,
                                                     std::string code, size_t cursor) {
  const language::Language* found = context_.table.Find(language);
  if (found == nullptr || !warm_->plan().interpreters.contains(found->name)) {
    co_return Err(ErrorCode::kUnsupported, "'{}' keeps no state and knows no names", language);
  }
  co_await StopSettling();
  auto ensured = co_await EnsureRunner(found->name);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  auto answer =
      co_await Exchange(runners_[found->name], language::EncodeQuestion(question, code, cursor), std::nullopt);
  co_return answer;
}

async::Task<Status> SandboxSession::AskForCheckpoint(Runner& runner, const std::string& name) {
  asked_name_ = name;
  arrived_.clear();
  auto status = co_await Exchange(runner, language::EncodeCheckpoint(name), name);
  if (!status) co_return std::unexpected(std::move(status.error()));
  co_return Status{};
}

async::Task<Status> SandboxSession::SaveCheckpoint(const std::string& name) {
  if (name.empty() || name.size() > 64) co_return Err(ErrorCode::kInvalid, "a checkpoint has a name of 1 to 64 bytes");
  co_await StopSettling();
  if (!named_.contains(name) && named_.size() == kMaxNamedCheckpoints) {
    co_return Err(ErrorCode::kExhausted, "a session keeps {} named checkpoints: drop one first", kMaxNamedCheckpoints);
  }
  auto ensured = co_await EnsureRunner("python");
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  auto status = co_await AskForCheckpoint(runners_["python"], name);
  if (!status) co_return std::unexpected(std::move(status.error()));
  if (arrived_ != "taken") co_return Err(ErrorCode::kUnsupported, "no checkpoint could be taken: {}", arrived_);
  co_return Status{};
}

async::Task<Status> SandboxSession::Rollback(const std::string& name) {
  co_await StopSettling();
  auto node = named_.extract(name);
  if (node.empty()) co_return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  if (os::HasEnded(node.mapped().pidfd.get())) {
    co_return Err(ErrorCode::kNotFound, "the checkpoint '{}' did not survive", name);
  }
  Runner& runner = runners_["python"];
  const std::shared_ptr<Zygote> zygote = runner.zygote;
  Discard(&runner);
  checkpoint_.reset();
  runner = Promote(std::move(node.mapped()), zygote);
  // It goes on from here, so another one takes its place under the name; and one stands behind the next run.
  auto again = co_await AskForCheckpoint(runner, name);
  if (!again) co_return std::unexpected(std::move(again.error()));
  if (request_.checkpoint == language::CheckpointMode::kOff) co_return Status{};
  auto covered = co_await AskForCheckpoint(runner, "");
  co_return covered;
}

Status SandboxSession::DropCheckpoint(const std::string& name) {
  if (named_.erase(name) == 0) return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  return {};
}

std::vector<std::string> SandboxSession::Checkpoints() const {
  std::vector<std::string> names;
  for (const auto& [name, copy] : named_) names.push_back(name);
  return names;
}

// Returns when init has done it, so that what is started next is spared.
async::Task<Status> SandboxSession::KillEverybody() {
  shell_->launch.KillGuest();
  for (;;) {
    bool heard = co_await HearInit();
    if (!heard) co_return std::unexpected(JailEnded());
    auto received = shell_->launch.Receive();
    if (!received || received->gone) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    if (received->report && received->report->kind == jail::ReportKind::kKilled) co_return Status{};
  }
}

// Init answers at once, or something holds it: then the jail is of no more use.
async::Task<bool> SandboxSession::HearInit() {
  auto readable = co_await async::WithDeadline(shell_->launch.Readable(), async::Clock::now() + kAnswerPatience);
  if (readable && *readable) co_return true;
  shell_->launch.KillInit();
  lost_ = true;
  co_return false;
}

async::Task<Status> SandboxSession::Reset() {
  co_await StopSettling();
  lost_ = lost_ || shell_->launch.ended();
  if (lost_) co_return std::unexpected(JailEnded());
  for (auto& [language, runner] : runners_) {
    if (runner) Discard(&runner);
  }
  checkpoint_.reset();
  named_.clear();
  checkpoint_status_ = FirstCheckpoint();
  auto killed = co_await KillEverybody();
  if (!killed) co_return std::unexpected(std::move(killed.error()));
  auto ensured = co_await EnsureRunner("python");
  co_return ensured;
}

async::Task<void> SandboxSession::Close() {
  co_await StopSettling();
  Watch(nullptr);
  ready_.Remove(shell_->launch.control_fd());
  runners_.clear();
  checkpoint_.reset();
  named_.clear();
  co_await shell_->End();
}

}  // namespace cella::executor
