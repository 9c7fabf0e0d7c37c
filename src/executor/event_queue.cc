#include "executor/event_queue.h"

namespace cella::executor {
namespace {

constexpr size_t kLargePiece = 65536;

size_t SizeOf(const Event& event) {
  if (const auto* output = std::get_if<OutputEvent>(&event)) return output->bytes.size();
  size_t size = sizeof event;
  if (const auto* value = std::get_if<ValueEvent>(&event)) size += value->text.size() + SizeOf(value->bundle);
  if (const auto* display = std::get_if<DisplayEvent>(&event)) {
    size += SizeOf(display->bundle) + display->display_id.size();
  }
  if (const auto* error = std::get_if<ErrorEvent>(&event)) {
    size += error->error.name.size() + error->error.message.size() + error->error.traceback.size();
  }
  if (const auto* input = std::get_if<InputRequestEvent>(&event)) size += input->prompt.size();
  return size;
}

}  // namespace

void EventQueue::Push(Event event) {
  if (abandoned_) return;
  size_t size = SizeOf(event);
  bytes_ += size;
  // A program that prints line by line, and a reader that lags behind: fewer, larger pieces.
  auto* output = std::get_if<OutputEvent>(&event);
  auto* last = events_.empty() ? nullptr : std::get_if<OutputEvent>(&events_.back().first);
  if (output != nullptr && last != nullptr && last->stream == output->stream && last->bytes.size() < kLargePiece) {
    last->bytes += output->bytes;
    events_.back().second += size;
    return;
  }
  events_.emplace_back(std::move(event), size);
  if (running_) return;
  running_ = true;
  tasks_.Add(HandOn());
}

async::Task<void> EventQueue::HandOn() {
  while (!events_.empty() && !abandoned_) {
    auto [event, size] = std::move(events_.front());
    events_.pop_front();
    // Whether anybody still wants it matters to a pipe, not to a session.
    (void)co_await sink_.Emit(std::move(event));
    const bool was_full = full();
    bytes_ -= size;
    if (was_full && !full()) on_room_();
  }
  running_ = false;
}

void EventQueue::Abandon() {
  abandoned_ = true;
  events_.clear();
  tasks_.Cancel();
}

async::Task<void> EventQueue::Drain() { return tasks_.Join(); }

}  // namespace cella::executor
