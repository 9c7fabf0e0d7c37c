#include "server/hosted_run.h"

#include "run/stop.h"
#include "server/render.h"

namespace cella::server {
namespace {

constexpr size_t kNews = 64;
constexpr size_t kLargeResult = size_t{64} << 10;

}  // namespace

HostedRun::HostedRun(async::Loop& loop, async::BlockingPool& work, std::string id, std::string owner, RunPaths paths,
                     registry::EventLogLimits limits)
    : work_(work),
      id_(std::move(id)),
      owner_(std::move(owner)),
      events_(registry::EventLog::Create(loop, std::move(paths.events), limits)),
      encoder_(id_),
      out_(std::move(paths.output), limits.file),
      err_(std::move(paths.errors), limits.file),
      large_(work, std::move(paths.large), limits.file),
      ended_(loop) {}

void HostedRun::Attach(std::shared_ptr<session::Run> run) {
  run_ = std::move(run);
  if (early_stop_) (void)run_->Stop(*early_stop_);
}

bool HostedRun::Stop(StopReason reason) {
  if (run_) return run_->Stop(reason);
  const bool is_weaker = early_stop_ && run::Strength(*early_stop_) > run::Strength(reason);
  if (phase_ == Phase::kEnded || is_weaker) return false;
  early_stop_ = reason;
  return true;
}

void HostedRun::Keep(Stream stream, std::string_view bytes) { (stream == Stream::kStdout ? out_ : err_).Append(bytes); }

uint64_t HostedRun::OutputSize(Stream stream) const { return (stream == Stream::kStdout ? out_ : err_).total(); }

Result<std::string> HostedRun::ReadOutput(Stream stream, uint64_t offset, size_t at_most) const {
  return (stream == Stream::kStdout ? out_ : err_).Read(offset, at_most);
}

void HostedRun::Append(std::string line) {
  const uint64_t number = events_->next_number();
  events_->Append(line);
  news_.push_back({number, std::move(line)});
  if (news_.size() > kNews) news_.pop_front();
}

async::Task<bool> HostedRun::Emit(Event event) {
  if (std::holds_alternative<StartedEvent>(event)) phase_ = Phase::kRunning;
  co_await Tell(event);
  co_return true;
}

async::Task<void> HostedRun::Tell(const Event& event) {
  if (std::holds_alternative<FinishedEvent>(event)) {
    told_end_ = true;
    for (Stream stream : {Stream::kStdout, Stream::kStderr}) {
      if (std::string line = encoder_.Flush(stream); !line.empty()) Append(std::move(line));
    }
  }
  std::string line = co_await RenderEvent(work_, encoder_, event);
  if (!line.empty()) Append(std::move(line));
}

async::Task<void> HostedRun::Finish(const RunResult& result) {
  // A reader that follows it waits for the last event; a run that ended before its turn has sent none.
  if (!told_end_) {
    const Event last = FinishedEvent{result.outcome, result.state, result.checkpoint};
    co_await Tell(last);
  }
  result_ = std::make_shared<const std::string>(co_await RenderResult(work_, result));
  phase_ = Phase::kEnded;
  news_.clear();
  events_->End();
  ended_.Set();
}

void HostedRun::FinishAsStored(std::string result) {
  result_ = std::make_shared<const std::string>(std::move(result));
  stored_ = true;
  phase_ = Phase::kEnded;
  events_->End();
  ended_.Set();
}

async::Task<void> HostedRun::KeepResult() {
  const auto result = result_;
  if (result && result->size() > kLargeResult) (void)co_await large_.AddResult(*result);
}

async::Task<std::shared_ptr<const std::string>> HostedRun::LoadResult() {
  if (result_) co_return result_;
  auto text = co_await large_.ReadResult();
  if (!text) co_return nullptr;
  co_return std::make_shared<const std::string>(std::move(*text));
}

void HostedRun::Settle(Stored stored) {
  run_.reset();
  events_->Settle();
  out_.Settle();
  err_.Settle();
  settled_ = stored == Stored::kYes;
  DropLargeResult();
}

void HostedRun::DropLargeResult() {
  if (settled_ && waiters_ == 0 && result_ && result_->size() > kLargeResult) result_.reset();
}

uint64_t HostedRun::disk_bytes() const {
  return events_->disk_bytes() + out_.disk_bytes() + err_.disk_bytes() + large_.disk_bytes();
}

void HostedRun::Discard() {
  discarded_ = true;
  events_->Discard();
  out_.Discard();
  err_.Discard();
  large_.Discard();
}

Status HostedRun::Reply(std::optional<std::string> text) {
  if (!run_) return Err(ErrorCode::kInvalid, "nothing waits for input");
  return run_->Reply(std::move(text));
}

std::vector<registry::EventRecord> HostedRun::TakeNews() {
  std::vector<registry::EventRecord> news(std::make_move_iterator(news_.begin()), std::make_move_iterator(news_.end()));
  news_.clear();
  return news;
}

}  // namespace cella::server
