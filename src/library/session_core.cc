#include "library/session_core.h"

#include <algorithm>

#include "library/run_core.h"

namespace cella::library {

SessionCore::SessionCore(Host& host, std::unique_ptr<session::Session> session,
                         std::shared_ptr<server::SessionTools> tools)
    : host_(host),
      session_(std::move(session)),
      id_(session_->id()),
      isolation_(session_->isolation()),
      unused_(host.loop()),
      closed_(host.loop()),
      tools_(std::move(tools)) {
  for (std::string_view word : session_->Capabilities()) capabilities_.emplace_back(word);
}

bool SessionCore::Supports(std::string_view word) const {
  return std::ranges::find(capabilities_, word) != capabilities_.end();
}

Status SessionCore::CheckOpen() const {
  if (closing_ || !session_) return Err(ErrorCode::kClosed, "the session was closed");
  return {};
}

Status SessionCore::AddTool(const server::Tool& tool, std::shared_ptr<const ToolFunction> function) {
  TRY_VOID(CheckOpen());
  if (!session_->can_call()) {
    return Err(ErrorCode::kUnsupported,
               "code of the {} executor cannot call tools: ask cella_session_supports(\"calls\")", isolation_.executor);
  }
  if (!tool_set_) {
    tool_set_ = std::make_unique<ToolSet>(tools_, [this](ToolCall call) { HandOn(std::move(call)); });
    tool_set_->post = [weak = weak_from_this(), &host = host_](uint64_t call, run::HostReply reply) {
      (void)host.Post([weak, call, reply = std::move(reply)] {
        if (auto self = weak.lock(); self && self->tool_set_) self->tool_set_->Reply(call, reply);
      });
    };
  }
  return tool_set_->Add(tool, std::move(function));
}

void SessionCore::HandOn(ToolCall call) {
  call.serving = serving_;
  for (const auto& each : runs_) {
    auto run = each.lock();
    if (run && run->IsOf(session_->current())) return run->Offer(std::move(call));
  }
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

Result<RunResult> SessionCore::RunToEnd(RunSpec spec) {
  auto run = std::make_shared<RunCore>(host_, RunCore::Events::kDropped);
  auto submit = [self = shared_from_this(), run, spec = std::move(spec)]() mutable -> async::Task<Status> {
    co_return self->Submit(std::move(spec), run);
  };
  TRY_VOID(host_.Begin(std::move(submit), [run](Error why) { run->Refuse(std::move(why)); }));
  return run->WaitOrRefusal();
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
  // The application may not take events, and the end of a run waits for that.
  for (const auto& each : runs_) {
    if (auto run = each.lock()) run->Discard();
  }
  (void)co_await async::Caught(session_->Close());
  while (uses_ > 0) (void)co_await unused_.Wait();
  tool_set_.reset();
  session_.reset();
  host_.Remove(*this);
  closed_.Set();
}

}  // namespace cella::library
