#include "run/host_calls.h"

#include <fmt/format.h>

#include "async/caught.h"

namespace cella::run {

void HostCalls::Open(Answer answer, Recorder recorder, ShowProgress show_progress) {
  answer_ = std::move(answer);
  block_recorder_ = std::move(recorder);
  show_progress_.reset();
  if (!show_progress) return;
  auto show = [left = bounds_.progress_lines, to = std::move(show_progress)](std::string_view line) mutable {
    if (left == 0) return;
    --left;
    to(line);
  };
  show_progress_ = std::make_shared<ShowProgress>(std::move(show));
}

HostCallRecord HostCalls::Record(const HostCall& call, async::TimePoint start, size_t bytes_out,
                                 std::string_view outcome) {
  HostCallRecord record{.door = call.door,
                        .space = call.space,
                        .operation = call.operation,
                        .duration = async::Clock::now() - start,
                        .bytes_in = call.arguments.size(),
                        .bytes_out = bytes_out,
                        .outcome = std::string(outcome)};
  if (recorder_) recorder_(record);
  if (block_recorder_) block_recorder_(record);
  return record;
}

void HostCalls::Refuse(const HostCall& call, const Answer& answer, std::string why) {
  if (++refused_ <= bounds_.recorded_refusals) Record(call, async::Clock::now(), 0, "refused");
  const HostReply reply{.id = call.id, .value = {}, .error = HostError{"CallRefused", std::move(why)}};
  if (answer) {
    answer(reply);
  } else if (answer_) {
    answer_(reply);
  }
}

void HostCalls::Take(HostCall call, Answer answer) {
  if (!answer_) return Refuse(call, answer, "no run is on");
  if (++taken_ > bounds_.per_run) {
    return Refuse(call, answer, fmt::format("more than {} calls in one run", bounds_.per_run));
  }
  if (open_ >= bounds_.in_flight) {
    return Refuse(call, answer, fmt::format("more than {} calls at once", bounds_.in_flight));
  }
  if (call.arguments.size() > bounds_.argument_bytes) {
    return Refuse(call, answer, fmt::format("the arguments of a call are limited to {} bytes", bounds_.argument_bytes));
  }
  const auto& handlers = handlers_[static_cast<size_t>(call.door)];
  auto handler = handlers.find(call.space);
  if (handler == handlers.end()) {
    return Refuse(call, answer, fmt::format("there is no namespace '{}' here", call.space));
  }
  call.progress = [to = std::weak_ptr<ShowProgress>(show_progress_)](std::string_view line) {
    if (auto show = to.lock()) (*show)(line);
  };
  if (!calls_) calls_ = std::make_unique<async::TaskGroup>(loop_);
  ++open_;
  calls_->Add(Serve(std::move(call), std::move(answer), *handler->second));
}

async::Task<void> HostCalls::Serve(HostCall call, Answer answer, HostCallHandler& handler) {
  const async::TimePoint start = async::Clock::now();
  auto served = co_await async::Caught(handler.Serve(call));
  HostReply reply;
  if (served) {
    reply = std::move(*served);
  } else {
    reply.error = HostError{"CallFailed", "the call failed: " + served.error().message};
  }
  reply.id = call.id;
  if (reply.value && reply.value->size() > bounds_.value_bytes) {
    reply.value.reset();
    reply.error =
        HostError{"CallRefused", fmt::format("the answer to a call is limited to {} bytes", bounds_.value_bytes)};
  }
  const bool cancelled = !answer_;
  if (cancelled) {
    reply.value.reset();
    reply.error = HostError{"CallCancelled", "the run ended before the call"};
  }
  const size_t bytes = reply.value ? reply.value->size() : 0;
  const std::string_view outcome = cancelled ? "cancelled" : reply.error ? "error" : "ok";
  // First the answer, which the guest waits for, and which may be followed by its next call.
  --open_;
  if (answer) {
    answer(std::move(reply));
  } else if (answer_) {
    answer_(std::move(reply));
  }
  HostCallRecord record = Record(call, start, bytes, outcome);
  if (auditor_) (void)co_await async::Caught(auditor_(std::move(record)));
}

async::Task<void> HostCalls::Close() {
  answer_ = nullptr;
  show_progress_.reset();
  if (!calls_) {
    block_recorder_ = nullptr;
    co_return;
  }
  calls_->Cancel();
  co_await calls_->Join();
  calls_.reset();
  block_recorder_ = nullptr;
}

}  // namespace cella::run
