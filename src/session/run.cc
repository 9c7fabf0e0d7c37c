#include "session/run.h"

#include <algorithm>

#include "base/scope_exit.h"

namespace cella::session {

namespace {

constexpr size_t kMaxAhead = 64;
constexpr size_t kMaxBytesAhead = size_t{16} << 20;

}  // namespace

async::Task<run::HostReply> InputCalls::Serve(run::HostCall) {
  if (!ahead_.empty()) {
    std::optional<std::string> text = std::move(ahead_.front());
    ahead_.pop_front();
    bytes_ahead_ -= text ? text->size() : 0;
    co_return run::HostReply{.id = 0, .value = std::move(text), .error = {}};
  }
  auto request = std::make_shared<Request>(loop_);
  open_.push_back(request);
  // However the wait ends, also by the end of the run.
  ScopeExit remove([&] { std::erase(open_, request); });
  (void)co_await request->answered.Wait();
  co_return run::HostReply{.id = 0, .value = std::move(request->text), .error = {}};
}

Status InputCalls::Reply(std::optional<std::string> text) {
  if (open_.empty()) {
    const size_t size = text ? text->size() : 0;
    if (ahead_.size() >= kMaxAhead || bytes_ahead_ + size > kMaxBytesAhead) {
      return Err(ErrorCode::kExhausted, "{} answers wait already for code that has not asked for them", ahead_.size());
    }
    bytes_ahead_ += size;
    ahead_.push_back(std::move(text));
    return {};
  }
  open_.front()->text = std::move(text);
  open_.front()->answered.Set();
  open_.pop_front();
  return {};
}

Status Run::Reply(std::optional<std::string> text) {
  if (!spec_.answers_input || has_ended()) return Err(ErrorCode::kInvalid, "nothing waits for input");
  return input_.Reply(std::move(text));
}

run::RunState Run::state() const {
  if (has_ended()) return run::RunState::kEnded;
  return driver_ == nullptr ? run::RunState::kQueued : driver_->state();
}

}  // namespace cella::session
