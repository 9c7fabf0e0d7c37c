#include "cli/line_writer.h"

#include "async/deadline.h"

namespace cella::cli {
namespace {

constexpr size_t kMaxQueued = size_t{1} << 20;
// For a reader that does not read any more, when we are about to leave.
constexpr auto kPatience = std::chrono::seconds(2);

}  // namespace

async::Task<bool> LineWriter::Write(std::string line) {
  while (bytes_ > kMaxQueued && !out_.closed()) {
    if (!room_) room_ = std::make_shared<async::Event>(loop_);
    std::shared_ptr<async::Event> room = room_;
    bool there = co_await room->Wait();
    if (!there) co_return false;
  }
  if (out_.closed()) co_return false;
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  if (!std::exchange(writing_, true)) tasks_.Add(HandOn());
  co_return true;
}

async::Task<void> LineWriter::HandOn() {
  while (!lines_.empty() && !out_.closed()) {
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    (void)co_await out_.Write(line);
    bytes_ -= line.size();
    if (room_ && (bytes_ <= kMaxQueued || out_.closed())) std::exchange(room_, nullptr)->Set();
  }
  if (room_) std::exchange(room_, nullptr)->Set();
  if (out_.closed()) on_closed_();
  writing_ = false;
}

async::Task<void> LineWriter::Finish() {
  auto joined = [](async::TaskGroup& tasks) -> async::Task<bool> {
    co_await tasks.Join();
    co_return true;
  };
  // Losing the race cancels the join, which ends the writing.
  (void)co_await async::WithDeadline(joined(tasks_), async::Clock::now() + kPatience);
}

}  // namespace cella::cli
