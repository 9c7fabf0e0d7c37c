#include "session/run_output.h"

namespace cella::session {

RunOutput::RunOutput(std::string run_id, run::EventSink* next, OutputShape shape)
    : fold_(std::move(run_id), std::move(shape.keep)),
      next_(next),
      shape_(std::move(shape)),
      stdout_(shape_.cap.value_or(0)),
      stderr_(shape_.cap.value_or(0)) {}

async::Task<bool> RunOutput::Forward(Event event) {
  if (next_ == nullptr) return fold_.Emit(std::move(event));
  const bool folds = shape_.cap || !std::holds_alternative<OutputEvent>(event);
  if (!folds) return next_->Emit(std::move(event));
  auto both = [](RunOutput& self, Event each) -> async::Task<bool> {
    // The slower one sets the pace. Copied first: the sink may change what it gets.
    Event copy = each;
    const bool wanted = co_await self.next_->Emit(std::move(copy));
    (void)co_await self.fold_.Emit(std::move(each));
    co_return wanted;
  };
  return both(*this, std::move(event));
}

async::Task<bool> RunOutput::EmitAfterStarted(Event event) {
  Event started = *std::exchange(started_, std::nullopt);
  const auto* finished = std::get_if<FinishedEvent>(&event);
  if (finished == nullptr || finished->outcome.status != RunStatus::kRejected) {
    (void)co_await Forward(std::move(started));
  }
  bool wanted = co_await Emit(std::move(event));
  co_return wanted;
}

async::Task<bool> RunOutput::Emit(Event event) {
  if (started_) return EmitAfterStarted(std::move(event));
  if (auto* started = std::get_if<StartedEvent>(&event); started != nullptr && shape_.holds_started) {
    started_ = std::move(*started);
    return [](bool wanted) -> async::Task<bool> { co_return wanted; }(true);
  }
  if (auto* output = std::get_if<OutputEvent>(&event)) {
    if (shape_.tap) shape_.tap(output->stream, output->bytes);
    if (shape_.cap) {
      OutputCap& cap = output->stream == Stream::kStdout ? stdout_ : stderr_;
      const size_t head = cap.Feed(output->bytes).size();
      if (head == 0) return [](bool wanted) -> async::Task<bool> { co_return wanted; }(true);
      output->bytes.resize(head);
    }
  }
  return Forward(std::move(event));
}

async::Task<void> RunOutput::FlushStream(Stream stream, OutputCap& cap) {
  OutputCap::Rest rest = cap.Finish();
  if (rest.dropped > 0) {
    Event truncated = TruncatedEvent{stream, rest.dropped};
    (void)co_await Forward(std::move(truncated));
  }
  if (!rest.tail.empty()) {
    Event tail = OutputEvent{stream, std::move(rest.tail)};
    (void)co_await Forward(std::move(tail));
  }
}

async::Task<void> RunOutput::Flush() {
  if (!shape_.cap) co_return;
  co_await FlushStream(Stream::kStdout, stdout_);
  co_await FlushStream(Stream::kStderr, stderr_);
}

}  // namespace cella::session
