#include "run/event_queue.h"

#include "async/caught.h"

namespace cella::run {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxEvents = 1024;
constexpr size_t kLargePiece = 65536;

}  // namespace

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
  if (const auto* progress = std::get_if<ProgressEvent>(&event)) size += progress->text.size();
  if (const auto* tool = std::get_if<ToolEvent>(&event)) size += tool->space.size() + tool->name.size();
  if (const auto* finished = std::get_if<FinishedEvent>(&event); finished != nullptr && finished->outcome.error) {
    size += finished->outcome.error->message.size() + finished->outcome.error->traceback.size();
  }
  return size;
}

bool EventQueue::Lane::full() const { return bytes > kMaxBytes || events.size() > kMaxEvents; }

EventQueue::Lane& EventQueue::LaneOf(const Event& event) {
  const auto* output = std::get_if<OutputEvent>(&event);
  return lanes_[two_lanes_ && output != nullptr && output->stream == Stream::kStderr ? 1 : 0];
}

bool EventQueue::full(Stream stream) const { return lanes_[two_lanes_ && stream == Stream::kStderr ? 1 : 0].full(); }

void EventQueue::Push(Event event) {
  if (abandoned_) return;
  auto* output = std::get_if<OutputEvent>(&event);
  if (output != nullptr && closed_[static_cast<size_t>(output->stream)]) return;
  Lane& lane = LaneOf(event);
  const size_t size = SizeOf(event);
  lane.bytes += size;
  // A program that prints line by line, and a reader that lags behind: fewer, larger pieces.
  auto* last = lane.events.empty() ? nullptr : std::get_if<OutputEvent>(&lane.events.back().first);
  if (output != nullptr && last != nullptr && last->stream == output->stream && last->bytes.size() < kLargePiece) {
    last->bytes += output->bytes;
    lane.events.back().second += size;
    return;
  }
  lane.events.emplace_back(std::move(event), size);
  if (std::exchange(lane.running, true)) return;
  tasks_.Add(HandOn(lane));
}

async::Task<void> EventQueue::HandOn(Lane& lane) {
  while (!lane.events.empty() && !abandoned_) {
    auto [event, size] = std::move(lane.events.front());
    lane.events.pop_front();
    const auto* output = std::get_if<OutputEvent>(&event);
    const std::optional<Stream> stream = output == nullptr ? std::nullopt : std::optional(output->stream);
    const bool wanted = co_await sink_.Emit(std::move(event));
    const bool was_full = lane.full();
    lane.bytes -= size;
    if (!wanted && stream && !std::exchange(closed_[static_cast<size_t>(*stream)], true)) listener_.on_closed(*stream);
    if (was_full && !lane.full()) listener_.on_room();
  }
  lane.running = false;
}

void EventQueue::Abandon() {
  abandoned_ = true;
  for (Lane& lane : lanes_) lane.events.clear();
  tasks_.Cancel();
}

async::Task<Status> EventQueue::Drain() { return async::Caught(tasks_.Join()); }

}  // namespace cella::run
