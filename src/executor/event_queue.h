// Between a run that must keep an eye on its guest and a sink that may be slow: events wait here, and a task of its own
// hands them on. The run stops reading the guest's output while the queue is full, so that a slow reader slows the
// guest down instead of filling our memory, and never keeps us from ending it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "async/task_group.h"
#include "executor/executor.h"

namespace cella::executor {

class EventQueue {
 public:
  // `on_room` is called when the queue was full and is no more. Sink and loop outlive this.
  EventQueue(async::Loop& loop, EventSink& sink, std::function<void()> on_room)
      : sink_(sink), on_room_(std::move(on_room)), tasks_(loop) {}

  void Push(Event event);
  bool idle() const { return !running_; }
  bool full() const { return bytes_ > kMaxBytes || events_.size() > kMaxEvents; }
  // Nobody wants what is still here.
  void Abandon();
  // Until the last one was handed on.
  async::Task<void> Drain();

 private:
  static constexpr size_t kMaxBytes = size_t{1} << 20;
  static constexpr size_t kMaxEvents = 1024;

  async::Task<void> HandOn();

  EventSink& sink_;
  std::function<void()> on_room_;
  std::deque<std::pair<Event, size_t>> events_;
  size_t bytes_ = 0;
  bool running_ = false;
  bool abandoned_ = false;
  async::TaskGroup tasks_;
};

}  // namespace cella::executor
