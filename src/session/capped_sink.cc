#include "session/capped_sink.h"

namespace cella::session {

async::Task<bool> CappedSink::Emit(Event event) {
  if (auto* output = std::get_if<OutputEvent>(&event)) {
    OutputCap& cap = output->stream == Stream::kStdout ? stdout_ : stderr_;
    size_t head = cap.Feed(output->bytes).size();
    if (head == 0) co_return true;
    output->bytes.resize(head);
  }
  bool wanted = co_await next_.Emit(std::move(event));
  co_return wanted;
}

async::Task<void> CappedSink::FlushStream(Stream stream, OutputCap& cap) {
  OutputCap::Rest rest = cap.Finish();
  if (rest.dropped > 0) {
    Event truncated = TruncatedEvent{stream, rest.dropped};
    (void)co_await next_.Emit(std::move(truncated));
  }
  if (!rest.tail.empty()) {
    Event tail = OutputEvent{stream, std::move(rest.tail)};
    (void)co_await next_.Emit(std::move(tail));
  }
}

async::Task<void> CappedSink::Flush() {
  co_await FlushStream(Stream::kStdout, stdout_);
  co_await FlushStream(Stream::kStderr, stderr_);
}

}  // namespace cella::session
