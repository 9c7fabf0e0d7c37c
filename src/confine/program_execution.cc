#include "confine/program_execution.h"

#include <fcntl.h>
#include <signal.h>

#include <array>

#include "confine/block_usage.h"
#include "confine/program_output.h"
#include "language/code_name.h"
#include "os/io.h"

namespace cella::confine {
namespace {

using namespace std::chrono_literals;

constexpr int kKeyControl = ProgramOutput::kFirstFree;

class ProgramExecution : public run::Execution {
 public:
  ProgramExecution(const ProgramPlace& place, Program program, async::ReadySet ready)
      : place_(place),
        program_(std::move(program)),
        ready_(std::move(ready)),
        output_(ready_, language::CodeName(program_.plan, program_.cwd)),
        input_(place.loop) {
    ways_.push_back(&program_.plan.commands);
    for (const auto& fallback : program_.plan.fallbacks) ways_.push_back(&fallback);
  }
  ~ProgramExecution() override { ready_.Remove(place_.jail.control_fd()); }

  Status Begin() {
    TRY_VOID(ready_.Add(place_.jail.control_fd(), kKeyControl));
    if (program_.plan.commands.empty()) {
      // The code is only saved.
      ended_ = true;
      last_ = jail::Report{};
      return {};
    }
    return StartCommand();
  }

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override;
  void Wake() override { ready_.Wake(); }
  void Send(run::StopStep step) override;
  bool HasStarted() override { return has_started_; }
  void CloseOutput(Stream stream) override { output_.Close(stream); }
  std::optional<std::chrono::nanoseconds> CpuUsed() const override;
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override;

 private:
  const language::Command& command() const { return (*ways_[way_])[command_]; }
  Status StartCommand();
  Status StartCandidate();
  // The program of the command is not there: the next candidate, the next way, or nothing left.
  Status TryNext(Error missing);
  void TakeReports(run::Output& out);
  void CommandEnded(const jail::Report& report, run::Output& out);
  std::optional<os::CgroupUsage> Usage() const;
  async::Task<void> PumpInput(async::Opened input, UniqueFd pipe);

  const ProgramPlace place_;
  Program program_;
  std::vector<const std::vector<language::Command>*> ways_;
  size_t way_ = 0, command_ = 0, candidate_ = 0;
  async::ReadySet ready_;
  ProgramOutput output_;
  async::Opened source_;  // of the program's input, until it is pumped
  UniqueFd input_write_;
  async::TaskGroup input_;

  uint32_t tag_ = 0;
  int group_ = 0;  // 0: everything in the place
  bool starting_ = false;
  bool has_started_ = false;
  bool started_told_ = false;
  bool kill_wanted_ = false;  // before the program's group was known
  bool ended_ = false;
  std::optional<Error> failure_;
  std::optional<jail::Report> last_;
  BlockUsage used_;
  double reaped_cpu_ms_ = 0;
  uint64_t peak_memory_ = 0;
};

std::optional<os::CgroupUsage> ProgramExecution::Usage() const {
  if (place_.usage) return place_.usage();
  if (!place_.cgroup) return std::nullopt;
  auto usage = place_.cgroup.Usage();
  return usage ? std::optional(*usage) : std::nullopt;
}

Status ProgramExecution::StartCommand() {
  candidate_ = 0;
  used_.Begin(Usage());
  return StartCandidate();
}

Status ProgramExecution::StartCandidate() {
  TRY(os::Pipe out, os::MakeOutputPipe());
  TRY(os::Pipe err, os::MakeOutputPipe());
  os::Pipe in;
  const bool feeds_input = command().purpose == language::Purpose::kRun && program_.standard_input;
  if (feeds_input) {
    TRY(in, os::MakePipe());
    source_ = async::OpenPrivately(program_.standard_input.get(), O_RDONLY);
    if (!source_.fd) return SysErr(errno, "standard input");
  } else {
    in.read = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!in.read) return SysErr(errno, "open '/dev/null'");
  }
  ExecRequest request;
  request.argv = command().argv;
  if (!command().candidates.empty()) request.argv.front() = command().candidates[candidate_];
  request.program = request.argv.front();
  request.env = program_.env;
  request.search_path = program_.search_path;
  request.cwd = program_.cwd;
  request.limits = place_.limits.exec;
  request.kill_rest = !place_.shared;
  const std::array<int, 3> stdio = {in.read.get(), out.write.get(), err.write.get()};
  TRY(tag_, place_.jail.Exec(request, stdio));
  starting_ = true;
  input_write_ = std::move(in.write);
  return output_.Open(std::move(out.read), std::move(err.read));
}

Status ProgramExecution::TryNext(Error missing) {
  if (candidate_ + 1 < command().candidates.size()) {
    ++candidate_;
    return StartCandidate();
  }
  if (way_ + 1 < ways_.size()) {
    ++way_;
    command_ = 0;
    return StartCommand();
  }
  if (!program_.plan.install.empty()) missing.message += "; " + program_.plan.install;
  return std::unexpected(std::move(missing));
}

// Not a byte is taken for a program that cannot be started: the next candidate may want it.
async::Task<void> ProgramExecution::PumpInput(async::Opened input, UniqueFd pipe) {
  async::Descriptor source(place_.loop, std::move(input.fd), input.sharing);
  async::Descriptor target(place_.loop, std::move(pipe), async::Sharing::kOurs);
  std::array<char, kReadSize> buffer;
  for (;;) {
    auto n = co_await source.ReadSome(buffer);
    if (!n || *n == 0) co_return;
    auto written = co_await target.WriteAll({buffer.data(), *n});
    if (!written) co_return;  // the program does not read (any more)
  }
}

void ProgramExecution::TakeReports(run::Output& out) {
  place_.jail.TakeReports();
  if (starting_) {
    if (auto start = place_.jail.TakeStart(tag_)) {
      starting_ = false;
      if (*start) {
        if (place_.shared) group_ = **start;
        if (place_.shared) place_.jail.WatchRun(group_);
        has_started_ = true;
        if (source_.fd) input_.Add(PumpInput(std::move(source_), std::move(input_write_)));
        if (kill_wanted_) Send(run::StopStep::kKill);
      } else {
        Error error = std::move(start->error());
        Status next =
            error.code == ErrorCode::kNotFound ? TryNext(std::move(error)) : std::unexpected(std::move(error));
        if (!next) failure_ = std::move(next.error());
      }
    }
  }
  if (!starting_ && !failure_) {
    if (auto end = place_.jail.TakeEnd(tag_)) CommandEnded(*end, out);
  }
  if (place_.jail.gone()) ended_ = true;
}

void ProgramExecution::CommandEnded(const jail::Report& report, run::Output& out) {
  last_ = report;
  reaped_cpu_ms_ += static_cast<double>(report.cpu_ns) / 1e6;
  peak_memory_ = std::max(peak_memory_, report.peak_rss);
  const bool failed = report.wait_status != 0 || report.killed_for != jail::KillReason::kNone;
  if (failed || kill_wanted_ || command_ + 1 >= ways_[way_]->size()) {
    ended_ = true;
    return;
  }
  output_.ReadRest(out);
  ++command_;
  if (auto started = StartCommand(); !started) failure_ = std::move(started.error());
}

async::Task<run::Progress> ProgramExecution::Advance(async::TimePoint until, run::Output& out) {
  output_.HoldFull(out);
  if (!ended_ && !failure_) {
    ready_.SetDeadline(until);
    auto keys = co_await ready_.Wait();
    for (int key : keys) {
      output_.Read(key, out);
      if (key == kKeyControl) TakeReports(out);
    }
  }
  if (ended_ || failure_) co_return run::Progress::kGone;
  if (has_started_ && !std::exchange(started_told_, true)) co_return run::Progress::kStarted;
  co_return run::Progress::kNothing;
}

void ProgramExecution::Send(run::StopStep step) {
  // Other programs live in a shared place: none is signalled before the program's group is known.
  const bool unknown = place_.shared && group_ == 0;
  switch (step) {
    case run::StopStep::kInterrupt:
      if (!unknown) place_.jail.Signal(SIGINT, group_);
      break;
    case run::StopStep::kKill:
      kill_wanted_ = true;
      if (!unknown) place_.jail.KillGuest(group_);
      break;
    case run::StopStep::kDestroy: place_.jail.KillInit(); break;
    case run::StopStep::kNudge:
    case run::StopStep::kNone:
    case run::StopStep::kGiveUp: break;
  }
}

std::optional<std::chrono::nanoseconds> ProgramExecution::CpuUsed() const {
  if (!place_.limits.cpu_time_by_cgroup || !place_.cgroup) return std::nullopt;
  return used_.Cpu(Usage());
}

async::Task<Result<run::RunFacts>> ProgramExecution::Finish(run::Output& out) {
  input_.Cancel();
  co_await input_.Join();
  output_.ReadRest(out);
  if (place_.shared) place_.jail.WatchRun(0);
  (void)place_.jail.TakeBreach();  // the report of the program's end has the reason too
  if (failure_) co_return std::unexpected(std::move(*failure_));
  run::RunFacts facts;
  if (last_) {
    facts.wait_status = last_->wait_status;
    facts.killed_for = ToStopReason(last_->killed_for);
  }
  facts.place_gone = place_.jail.gone();
  facts.usage.cpu_ms = reaped_cpu_ms_;
  facts.usage.peak_memory = peak_memory_;
  used_.AddTo(&facts, Usage());
  co_return facts;
}

}  // namespace

Result<std::unique_ptr<run::Execution>> StartProgram(const ProgramPlace& place, Program program) {
  TRY(async::ReadySet ready, async::ReadySet::Create(place.loop));
  auto execution = std::make_unique<ProgramExecution>(place, std::move(program), std::move(ready));
  TRY_VOID(execution->Begin());
  return std::unique_ptr<run::Execution>(std::move(execution));
}

}  // namespace cella::confine
