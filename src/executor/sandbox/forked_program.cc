#include "executor/sandbox/forked_program.h"

#include <signal.h>

#include "async/ready_set.h"
#include "confine/block_usage.h"
#include "confine/launch_errors.h"
#include "confine/program_output.h"
#include "executor/sandbox/runner.h"
#include "os/pidfd.h"
#include "runner/protocol.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

enum Key { kKeyControl = confine::ProgramOutput::kFirstFree, kKeyChannel, kKeyProcess };

class ForkedProgram : public run::Execution {
 public:
  ForkedProgram(const confine::ProgramPlace& place, ForkedStart start, async::ReadySet ready)
      : place_(place),
        start_(std::move(start)),
        ready_(std::move(ready)),
        output_(ready_, std::move(start_.name)),
        sending_(place.loop) {}
  ~ForkedProgram() override { ready_.Remove(place_.jail.control_fd()); }

  Status Begin(std::string frame);

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override;
  void Wake() override { ready_.Wake(); }
  void Send(run::StopStep step) override;
  bool HasStarted() override { return has_started_; }
  void CloseOutput(Stream stream) override { output_.Close(stream); }
  std::optional<std::chrono::nanoseconds> CpuUsed() const override;
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override;

 private:
  async::Task<void> SendFrame(std::string frame);
  async::Task<void> SendInput(UniqueFd pipe, std::string text);
  void TakeChannel();
  void TakeReports();
  std::optional<os::CgroupUsage> Usage() const;
  async::Task<void> EndOthers();
  async::Task<Result<run::RunFacts>> Facts();

  const confine::ProgramPlace place_;
  ForkedStart start_;
  async::ReadySet ready_;
  confine::ProgramOutput output_;
  async::TaskGroup sending_;
  int group_ = 0;
  bool has_started_ = false;
  bool started_told_ = false;
  bool ended_ = false;
  jail::KillReason breach_ = jail::KillReason::kNone;
  bool breach_told_ = false;
  std::optional<Error> refused_;
  confine::BlockUsage used_;
};

std::optional<os::CgroupUsage> ForkedProgram::Usage() const {
  if (!place_.cgroup) return std::nullopt;
  auto usage = place_.cgroup.Usage();
  return usage ? std::optional(*usage) : std::nullopt;
}

Status ForkedProgram::Begin(std::string frame) {
  (void)place_.jail.TakeBreach();  // of an earlier run
  used_.Begin(Usage());
  if (auto pids = os::NamespacePids(start_.newborn.process.pidfd.get())) group_ = pids->back();
  if (place_.limits.IsWatched()) place_.jail.WatchRun(group_);
  TRY_VOID(ready_.Add(place_.jail.control_fd(), kKeyControl));
  TRY_VOID(ready_.Add(start_.newborn.process.pidfd.get(), kKeyProcess));
  TRY_VOID(ready_.Add(start_.channel.fd(), kKeyChannel));
  TRY_VOID(output_.Open(std::move(start_.out), std::move(start_.err)));
  if (!start_.channel.SendNow(frame)) sending_.Add(SendFrame(std::move(frame)));
  if (start_.input) sending_.Add(SendInput(std::move(start_.input), std::move(start_.input_text)));
  return {};
}

async::Task<void> ForkedProgram::SendFrame(std::string frame) {
  // If it fails, the fork has ended, and that is seen.
  (void)co_await start_.channel.Send(place_.loop, frame, async::TimePoint::max());
}

async::Task<void> ForkedProgram::SendInput(UniqueFd pipe, std::string text) {
  async::Descriptor target(place_.loop, std::move(pipe), async::Sharing::kOurs);
  (void)co_await target.WriteAll(text);  // a program need not read it
}

// All that can come is the refusal to begin, or the end: then the code has begun.
void ForkedProgram::TakeChannel() {
  const FramesEnd end = ReadFrames(start_.channel, {.frames = 1}, nullptr, [&](runner::Frame frame) {
    if (auto* refusal = std::get_if<runner::RefusedFrame>(&frame)) {
      refused_ = Error{ErrorCode::kInvalid,
                       fmt::format("cannot enter the directory '{}': {}", refusal->path, ErrnoText(refusal->error)),
                       refusal->error};
    }
    return true;
  });
  if (end == FramesEnd::kDrained || end == FramesEnd::kBound) return;
  has_started_ = true;
  ready_.Remove(start_.channel.fd());
}

void ForkedProgram::TakeReports() {
  place_.jail.TakeReports();
  if (place_.jail.gone()) ended_ = true;
  if (auto breach = place_.jail.TakeBreach(); breach != jail::KillReason::kNone) breach_ = breach;
}

async::Task<run::Progress> ForkedProgram::Advance(async::TimePoint until, run::Output& out) {
  output_.HoldFull(out);
  if (!ended_) {
    ready_.SetDeadline(until);
    auto keys = co_await ready_.Wait();
    for (int key : keys) {
      output_.Read(key, out);
      switch (key) {
        case kKeyControl: TakeReports(); break;
        case kKeyChannel: TakeChannel(); break;
        case kKeyProcess:
          ended_ = true;
          ready_.Remove(start_.newborn.process.pidfd.get());
          break;
        default: break;
      }
    }
  }
  if (ended_) co_return run::Progress::kGone;
  if (breach_ != jail::KillReason::kNone && !std::exchange(breach_told_, true)) co_return run::Progress::kKilledHere;
  if (has_started_ && !std::exchange(started_told_, true)) co_return run::Progress::kStarted;
  co_return run::Progress::kNothing;
}

void ForkedProgram::Send(run::StopStep step) {
  switch (step) {
    case run::StopStep::kInterrupt:
      if (group_ > 1) place_.jail.Signal(SIGINT, group_);
      break;
    case run::StopStep::kKill: place_.jail.KillGuest(place_.shared ? group_ : 0); break;
    case run::StopStep::kDestroy: place_.jail.KillInit(); break;
    case run::StopStep::kNudge:
    case run::StopStep::kNone:
    case run::StopStep::kGiveUp: break;
  }
}

std::optional<std::chrono::nanoseconds> ForkedProgram::CpuUsed() const {
  if (!place_.limits.cpu_time_by_cgroup) return std::nullopt;
  return used_.Cpu(Usage());
}

// A program of its own ends with all that it started, so that the files stay as they are.
async::Task<void> ForkedProgram::EndOthers() {
  (void)place_.jail.TakeKilled();
  place_.jail.KillGuest();
  const async::TimePoint last = async::Clock::now() + run::kKillPatience;
  while (!place_.jail.TakeKilled() && !place_.jail.gone() && async::Clock::now() < last) {
    ready_.SetDeadline(last);
    auto keys = co_await ready_.Wait();
    for (int key : keys) {
      if (key == kKeyControl) TakeReports();
    }
  }
}

async::Task<Result<run::RunFacts>> ForkedProgram::Finish(run::Output& out) {
  sending_.Cancel();
  co_await sending_.Join();
  output_.ReadRest(out);
  if (!has_started_ && !refused_) TakeChannel();
  ready_.Remove(start_.channel.fd());
  if (ended_ && !place_.jail.gone()) TakeReports();  // init reports why it kills before it kills
  if (!place_.shared && !place_.jail.gone()) co_await EndOthers();
  if (place_.limits.IsWatched() && !place_.jail.gone()) place_.jail.WatchRun(0);
  auto facts = co_await Facts();
  co_return facts;
}

async::Task<Result<run::RunFacts>> ForkedProgram::Facts() {
  Zygote& zygote = *start_.newborn.zygote;
  const uint32_t tag = start_.newborn.process.tag;
  run::RunFacts facts;
  if (os::HasEnded(start_.newborn.process.pidfd.get())) {
    if (auto end = co_await zygote.WaitEnd(tag)) {
      facts.wait_status = end->wait_status;
      facts.usage.cpu_ms = static_cast<double>(end->cpu_ns) / 1e6;
      facts.usage.peak_memory = end->peak_rss;
    }
  }
  // It failed before it became a guest, or before it began the code: that is ours to explain.
  if (auto failure = zygote.TakeFailure(tag)) co_return std::unexpected(confine::ExplainExecFailure(*failure));
  if (refused_) co_return std::unexpected(std::move(*refused_));
  facts.killed_for = confine::ToStopReason(breach_);
  facts.place_gone = place_.jail.gone();
  used_.AddTo(&facts, Usage());
  co_return facts;
}

}  // namespace

Result<std::unique_ptr<run::Execution>> StartForkedProgram(const confine::ProgramPlace& place, ForkedStart start,
                                                           std::string frame) {
  TRY(async::ReadySet ready, async::ReadySet::Create(place.loop));
  auto execution = std::make_unique<ForkedProgram>(place, std::move(start), std::move(ready));
  TRY_VOID(execution->Begin(std::move(frame)));
  return std::unique_ptr<run::Execution>(std::move(execution));
}

}  // namespace cella::executor
