// Whole lines to a reader that may be slow: each is written to its end by one task, whatever becomes of the task that
// queued it, so that lines of several runs never mix and a cancelled run leaves no half of one. Bounded: writers wait
// for room.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "async/event.h"
#include "async/task_group.h"
#include "cli/output_sinks.h"

namespace cella::cli {

class LineWriter {
 public:
  // `on_closed` is called when the reader turns out to be gone.
  LineWriter(async::Loop& loop, int fd, std::function<void()> on_closed)
      : loop_(loop), out_(loop, fd), on_closed_(std::move(on_closed)), tasks_(loop) {}

  // Queues the line. False: the reader is gone, or this was cancelled before there was room.
  async::Task<bool> Write(std::string line);
  bool closed() const { return out_.closed(); }
  // Until everything is written, but not for ever. Before this goes away.
  async::Task<void> Finish();

 private:
  async::Task<void> HandOn();

  async::Loop& loop_;
  OwnOutput out_;
  std::function<void()> on_closed_;
  std::deque<std::string> lines_;
  size_t bytes_ = 0;
  bool writing_ = false;
  std::shared_ptr<async::Event> room_;  // while a task waits for it
  async::TaskGroup tasks_;
};

}  // namespace cella::cli
