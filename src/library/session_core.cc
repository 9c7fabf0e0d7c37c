#include "library/session_core.h"

#include <algorithm>

#include "library/run_core.h"

namespace cella::library {

SessionCore::SessionCore(Host& host, std::unique_ptr<session::Session> session)
    : host_(host),
      session_(std::move(session)),
      id_(session_->id()),
      isolation_(session_->isolation()),
      unused_(host.loop()),
      closed_(host.loop()) {
  for (std::string_view word : session_->Capabilities()) capabilities_.emplace_back(word);
}

bool SessionCore::Supports(std::string_view word) const {
  return std::ranges::find(capabilities_, word) != capabilities_.end();
}

Status SessionCore::CheckOpen() const {
  if (closing_ || !session_) return Err(ErrorCode::kClosed, "the session was closed");
  return {};
}

void SessionCore::LeaveUse() {
  --uses_;
  if (uses_ == 0) unused_.Notify();
}

Status SessionCore::Submit(RunSpec spec, const std::shared_ptr<RunCore>& run) {
  TRY_VOID(CheckOpen());
  // What an ended run kept is of no use.
  std::erase_if(runs_, [](const auto& each) { return each.expired(); });
  TRY(std::shared_ptr<session::Run> on, session_->Submit(std::move(spec), run->sink()));
  run->Begin(on);
  runs_.push_back(run);
  ++uses_;
  host_.tasks().Add(Watch(run, std::move(on)));
  return {};
}

async::Task<void> SessionCore::Watch(std::shared_ptr<RunCore> run, std::shared_ptr<session::Run> on) {
  auto self = shared_from_this();
  (void)co_await on->Ended();
  run->End(on->TakeResult());
  LeaveUse();
}

async::Task<void> SessionCore::Close() {
  auto self = shared_from_this();
  if (closing_) {
    (void)co_await closed_.Wait();
    co_return;
  }
  closing_ = true;
  // Nobody may be there to take events, and the end of a run waits for that.
  for (const auto& each : runs_) {
    if (auto run = each.lock()) run->Discard();
  }
  (void)co_await async::Caught(session_->Close());
  while (uses_ > 0) (void)co_await unused_.Wait();
  session_.reset();
  host_.Remove(*this);
  closed_.Set();
}

}  // namespace cella::library
