#include "executor/guest_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "async/deadline.h"
#include "async/task_group.h"
#include "base/scope_exit.h"
#include "executor/cause.h"
#include "os/io.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// After a cancel, for a sink that does not take what is left.
constexpr auto kAbandonAfter = 250ms;
constexpr auto kPollStart = 5ms;
// After SIGKILL to everything inside, before the jail itself is killed from outside.
constexpr auto kKillPatience = 2s;
constexpr size_t kReadSize = 65536;
// What /proc/sys/fs/pipe-max-size allows a guest to make of its pipe, at most.
constexpr size_t kLargestPipe = (size_t{1} << 20) + kReadSize;

}  // namespace

async::Task<void> GuestRun::PumpOutput(UniqueFd pipe, Stream stream, async::Event& ended) {
  async::Descriptor source(loop_, std::move(pipe), async::Sharing::kOurs);
  std::array<char, kReadSize> buffer;
  // Once the guest has ended, what it wrote is in the pipe. Its write end may still be open somewhere (passed to
  // another jail over a shared directory): that is no reason to wait, nor to take more than a pipe can hold.
  size_t left_after_end = kLargestPipe;
  for (;;) {
    if (!ended.is_set()) (void)co_await async::FirstOf(source.Readable(), ended.Wait());
    ssize_t n = read(source.fd(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !ended.is_set() && !abandoned_) continue;
    if (n <= 0 || abandoned_) co_return;
    Event event = OutputEvent{stream, std::string(buffer.data(), static_cast<size_t>(n))};
    bool wanted = co_await sink_.Emit(std::move(event));
    if (!wanted) co_return;
    if (!ended.is_set()) continue;
    if (static_cast<size_t>(n) >= left_after_end) co_return;
    left_after_end -= static_cast<size_t>(n);
  }
}

async::Task<void> GuestRun::PumpInput(async::Opened input, UniqueFd pipe, async::Event& program_started) {
  // Not a byte is taken for a program that cannot be started: the next candidate may want it.
  bool started = co_await program_started.Wait();
  if (!started) co_return;
  async::Descriptor source(loop_, std::move(input.fd), input.sharing);
  async::Descriptor target(loop_, std::move(pipe), async::Sharing::kOurs);
  std::array<char, kReadSize> buffer;
  for (;;) {
    auto n = co_await source.ReadSome(buffer);
    if (!n || *n == 0) co_return;
    auto written = co_await target.WriteAll({buffer.data(), *n});
    if (!written) co_return;  // the program does not read (any more)
  }
}

async::TimePoint GuestRun::NextCpuCheck() {
  if (!limit_plan_->cpu_time_by_cgroup || !cgroup_) return async::TimePoint::max();
  auto usage = cgroup_.Usage();
  if (!usage || !usage->cpu) return async::TimePoint::max();
  auto left = limits_->cpu_time.value - (*usage->cpu - cpu_before_);
  if (left <= 0ns) return async::TimePoint::min();
  // Even with all processors busy it cannot get there sooner.
  auto soonest = left / std::max(1u, std::thread::hardware_concurrency());
  return async::Clock::now() + std::max<std::chrono::nanoseconds>(soonest, 5ms);
}

async::Task<Result<GuestRun::End>> GuestRun::Watch(async::Event& program_started) {
  End end;
  bool ending = false;  // SIGINT was sent
  bool killed = false;  // SIGKILL was sent
  async::TimePoint cpu_check = NextCpuCheck();
  async::TimePoint deadline = deadline_;
  for (;;) {
    auto now = async::Clock::now();
    if (cancel_.is_set() && !ending && !killed) deadline = now;
    // In a session others live in the jail: nobody is signalled before it is known whom that means.
    if (in_session_ && group_ == 0 && now >= deadline) deadline = now + kPollStart;
    if (now >= cpu_check && !ending && !killed) {
      cpu_check = NextCpuCheck();
      if (cpu_check <= now) {
        end.out_of_cpu_time = true;
        cpu_check = async::TimePoint::max();
        launch_.KillGuest(group_);
        killed = true;
        deadline = now + kKillPatience;
      }
    } else if (now >= deadline) {
      if (killed) {
        launch_.KillInit();
        deadline = async::TimePoint::max();
      } else if (ending) {
        launch_.KillGuest(group_);
        killed = true;
        deadline = now + kKillPatience;
      } else {
        (cancel_.is_set() ? end.cancelled : end.timed_out) = true;
        cpu_check = async::TimePoint::max();
        // First the polite way: a program may still print what it was doing.
        launch_.Signal(SIGINT, group_);
        ending = true;
        deadline = now + kInterruptGrace;
      }
    }
    async::TimePoint next = std::min(deadline, cpu_check);
    if (cancel_.is_set()) {
      (void)co_await async::FirstOf(launch_.Readable(), async::SleepUntil(next));
    } else {
      (void)co_await async::FirstOf(async::WithDeadline(launch_.Readable(), next), cancel_.Wait());
    }
    CO_TRY(Launch::Received received, launch_.Receive());
    if (received.gone) co_return end;
    if (!received.report) continue;
    if (received.report->kind == jail::ReportKind::kStarted) {
      if (received.report->tag != tag_) continue;
      if (in_session_) group_ = received.report->pid;
      if (in_session_) launch_.WatchRun(group_);
      program_started.Set();
    }
    if (received.report->kind != jail::ReportKind::kExited) continue;
    if (received.report->tag != tag_) {
      launch_.KeepEnd(*received.report);
      continue;
    }
    end.report = *received.report;
    co_return end;
  }
}

async::Task<Result<GuestRun::End>> GuestRun::RunCommand(GuestRunOptions& options, const language::Command& command) {
  CO_TRY(os::Pipe out, os::MakePipe());
  CO_TRY(os::Pipe err, os::MakePipe());
  os::Pipe in;
  const bool feeds_input = command.purpose == language::Purpose::kRun && options.standard_input;
  if (feeds_input) {
    CO_TRY(in, os::MakePipe());
  } else {
    in.read = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in.read) co_return SysErr(errno, "open '/dev/null'");
  }
  ExecRequest request;
  request.program = command.argv.front();
  request.argv = command.argv;
  request.env = options.env;
  request.search_path = options.search_path;
  request.cwd = options.cwd;
  request.limits = limit_plan_->exec;
  request.kill_rest = !in_session_;
  const std::array<int, 3> stdio = {in.read.get(), out.write.get(), err.write.get()};
  CO_TRY(tag_, launch_.Exec(request, stdio));
  in.read.Reset();
  out.write.Reset();
  err.write.Reset();

  async::Opened source;
  if (feeds_input) {
    source = async::OpenPrivately(options.standard_input.get(), O_RDONLY);
    if (!source.fd) co_return SysErr(errno, "standard input");
  }
  async::TaskGroup input(loop_);
  async::TaskGroup output(loop_);
  async::Event program_started(loop_);
  if (feeds_input) {
    input.Add(PumpInput(std::move(source), std::move(in.write), program_started));
  }
  async::Event ended(loop_);
  output.Add(PumpOutput(std::move(out.read), Stream::kStdout, ended));
  output.Add(PumpOutput(std::move(err.read), Stream::kStderr, ended));
  auto end = co_await Watch(program_started);
  input.Cancel();
  co_await input.Join();
  ended.Set();
  // Whoever reads our output decides how long this takes; somebody who cancels does not want to wait for that.
  async::TaskGroup impatience(loop_);
  auto abandon = [&]() -> async::Task<void> {
    bool cancelled = co_await cancel_.Wait();
    if (!cancelled) co_return;
    (void)co_await async::SleepUntil(async::Clock::now() + kAbandonAfter);
    abandoned_ = true;
    output.Cancel();
  };
  impatience.Add(abandon());
  co_await output.Join();
  impatience.Cancel();
  co_await impatience.Join();
  co_return end;
}

Outcome GuestRun::Judge(const End& end) {
  Outcome outcome;
  std::optional<os::CgroupUsage> group;
  if (cgroup_) {
    if (auto usage = cgroup_.Usage()) group = *usage;
  }
  const jail::Report* report = end.report ? &*end.report : nullptr;
  if (report != nullptr) {
    cpu_ms_ += static_cast<double>(report->cpu_ns) / 1e6;
    peak_memory_ = std::max(peak_memory_, report->peak_rss);
  }
  if (group && group->cpu) cpu_ms_ = std::chrono::duration<double, std::milli>(*group->cpu - cpu_before_).count();
  if (group && group->peak_memory) peak_memory_ = *group->peak_memory;
  outcome.usage.wall_ms = std::chrono::duration<double, std::milli>(async::Clock::now() - started_).count();
  outcome.usage.cpu_ms = cpu_ms_;
  outcome.usage.peak_memory = peak_memory_;

  // Without a report the whole jail was killed.
  const int status = report != nullptr ? report->wait_status : SIGKILL;
  const bool signaled = WIFSIGNALED(status);
  if (signaled) outcome.signal = WTERMSIG(status);
  outcome.exit_code = signaled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  const bool failed = outcome.exit_code != 0;
  const auto killed_for = report != nullptr ? report->killed_for : jail::KillReason::kNone;
  // Counters of the group are of the whole run; what an earlier command (a compiler) met is not this one's.
  const uint64_t oom_kills = group ? group->oom_kills.value_or(0) : 0;
  const uint64_t pids_refused = group ? group->pids_refused.value_or(0) : 0;
  const bool oom = killed_for == jail::KillReason::kMemory || (failed && oom_kills > oom_kills_before_);
  const double cpu_limit_ms = std::chrono::duration<double, std::milli>(limits_->cpu_time.value).count();
  // A watch may miss what ends between two looks; the sum at the end does not.
  const bool overlooked = !limit_plan_->cpu_time_by_cgroup && cpu_ms_ > cpu_limit_ms + 100;
  const bool over_cpu =
      end.out_of_cpu_time || overlooked || killed_for == jail::KillReason::kCpuTime ||
      (signaled && (WTERMSIG(status) == SIGXCPU || (WTERMSIG(status) == SIGKILL && cpu_ms_ >= cpu_limit_ms)));
  const bool over_pids = killed_for == jail::KillReason::kProcesses || (failed && pids_refused > pids_refused_before_);
  oom_kills_before_ = oom_kills;
  pids_refused_before_ = pids_refused;

  const Cause cause = end.cancelled                             ? Cause::kCancel
                      : end.timed_out                           ? Cause::kWallTime
                      : oom                                     ? Cause::kMemory
                      : over_cpu                                ? Cause::kProcessorTime
                      : signaled && WTERMSIG(status) == SIGXFSZ ? Cause::kFileSize
                      : over_pids                               ? Cause::kProcesses
                                                                : Cause::kNone;
  outcome.status = signaled ? RunStatus::kCrashed : failed ? RunStatus::kError : RunStatus::kOk;
  ApplyCause(cause, *limits_, &outcome);
  return outcome;
}

async::Task<Result<Outcome>> GuestRun::RunCommands(GuestRunOptions& options,
                                                   const std::vector<language::Command>& commands) {
  Outcome outcome;
  for (const language::Command& command : commands) {
    std::vector<std::string> names = command.candidates;
    if (names.empty()) names.push_back(command.argv.front());
    Result<End> end = Err(ErrorCode::kNotFound, "no program");
    for (const std::string& name : names) {
      language::Command attempt = command;
      attempt.argv.front() = name;
      end = co_await RunCommand(options, attempt);
      if (end || end.error().code != ErrorCode::kNotFound) break;
    }
    if (!end) co_return std::unexpected(std::move(end.error()));
    outcome = Judge(*end);
    if (outcome.status != RunStatus::kOk) break;
  }
  co_return outcome;
}

async::Task<Result<Outcome>> GuestRun::Run(GuestRunOptions options) {
  limits_ = options.limits;
  limit_plan_ = options.limit_plan;
  in_session_ = options.in_session;
  if (in_session_ && cgroup_) {
    if (auto usage = cgroup_.Usage()) {
      cpu_before_ = usage->cpu.value_or(0ns);
      oom_kills_before_ = usage->oom_kills.value_or(0);
      pids_refused_before_ = usage->pids_refused.value_or(0);
    }
  }
  started_ = async::Clock::now();
  deadline_ = started_ + limits_->timeout.value;
  ScopeExit unwatch([this] {
    if (in_session_) launch_.WatchRun(0);
  });
  auto outcome = co_await RunCommands(options, options.plan->commands);
  for (const auto& fallback : options.plan->fallbacks) {
    if (outcome || outcome.error().code != ErrorCode::kNotFound) break;
    outcome = co_await RunCommands(options, fallback);
  }
  if (!outcome && outcome.error().code == ErrorCode::kNotFound && !options.plan->install.empty()) {
    outcome.error().message += "; " + options.plan->install;
  }
  co_return outcome;
}

}  // namespace cella::executor
