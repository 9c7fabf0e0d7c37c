#include "executor/sandbox/sandbox_session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "executor/cause.h"
#include "executor/guest_run.h"
#include "executor/launch_errors.h"
#include "executor/sandbox/isolation.h"
#include "os/pidfd.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

constexpr auto kWarmPatience = 1s;
// While others wait for the processors: a session that ends within this time never needed the checkpoint.
constexpr uint32_t kBusyCourtesyMs = 50;

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
             shell_->ready.entry.size() > 1 ? os::IdOf(shell_->ready.entry[1].get()) : os::NamespaceId{},
             [this](const language::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
               OnCheckpoint(frame, std::move(copy));
             }},
      limits_(request_.policy.limits),
      checkpoint_status_(FirstCheckpoint()),
      replying_(context.loop, 1),
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
  if (!session->warm_->forks()) session->shell_->CloseEntry();
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
  auto payload = language::EncodeRehearse();
  // If it fails, whoever takes the session finds out.
  (void)co_await runner.channel.Send(context_.loop, payload, async::Clock::now() + kWarmPatience);
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

Status SandboxSession::OpenPipes() {
  TRY(out_, os::MakePipe());
  TRY(err_, os::MakePipe());
  for (const os::Pipe* pipe : {&out_, &err_}) {
    if (fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) < 0) return SysErr(errno, "make a pipe");
  }
  parts_.out = out_.read.get();
  parts_.err = err_.read.get();
  TRY_VOID(ready_.Add(parts_.out, kKeyOut));
  TRY_VOID(ready_.Add(parts_.err, kKeyErr));
  return ready_.Add(shell_->launch.control_fd(), kKeyControl);
}

void SandboxSession::DropLateOutput() {
  std::array<char, 65536> buffer;
  for (int fd : {parts_.out, parts_.err}) {
    for (int round = 0; round < 32; ++round) {
      if (os::RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); }) <= 0) break;
    }
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
  interrupt_asked_ = false;
  interruptible_ = true;
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
  interruptible_ = false;
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
    if (bad || !CellRun::TakeIdleFrames(parts_, runner)) {
      // What stands behind the next run is what the last one left, unless that was still to come.
      const bool behind = language == "python" && checkpoint_due_;
      found = co_await Recover(language);
      if (found == StateAfter::kRolledBack && !behind) found = StateAfter::kKept;
    }
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
  if (context_.starting != nullptr && context_.starting->waiting() > 0) request.courtesy_ms = kBusyCourtesyMs;
  oom_kills_ = meter_.OomKills();
  refused_forks_ = meter_.RefusedForks();
  (void)co_await replying_.Enter();  // a reply to the last run may be half sent
  CellRun run(parts_, runner, language == "python", sink);
  if (cancel_asked_) run.Cancel();
  if (interrupt_asked_) run.Interrupt();
  running_ = &run;
  auto end = co_await run.Run(request, limits_.timeout.value);
  running_ = nullptr;
  interruptible_ = false;
  if (!end) co_return std::unexpected(std::move(end.error()));
  if (!end->done && runner.zygote) {
    // It never got as far as being a guest: that is ours to explain.
    if (auto failure = runner.zygote->TakeFailure(runner.tag)) {
      Discard(&runner);
      co_return std::unexpected(ExplainExecFailure(*failure));
    }
  }
  const bool answered = end->done.has_value();
  auto judged = co_await Judge(language, std::move(*end), started);
  if (judged.state == StateAfter::kKept) judged.state = found;
  if (language == "python" && answered && request_.checkpoint != language::CheckpointMode::kOff) {
    checkpoint_due_ = true;
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
  if (cancel_asked_ || interrupt_asked_) cancel.Set();
  GuestRun run(context_.loop, shell_->launch, shell_->cgroup, sink, cancel);
  auto outcome = co_await run.Run(std::move(options));
  cancel_program_ = nullptr;
  interruptible_ = false;
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

void SandboxSession::Interrupt() {
  if (!interruptible_ || (running_ != nullptr && running_->is_over())) return;
  interrupt_asked_ = true;
  if (running_ != nullptr) running_->Interrupt();
  if (cancel_program_ != nullptr) cancel_program_->Set();
}

void SandboxSession::Cancel() {
  cancel_asked_ = true;
  if (running_ != nullptr) running_->Cancel();
  if (cancel_program_ != nullptr) cancel_program_->Set();
}

async::Task<Status> SandboxSession::Reset() {
  co_await StopSettling();
  lost_ = lost_ || shell_->launch.ended();
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
