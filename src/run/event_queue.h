// Between a guest that must be watched and a sink that may be slow: events wait here, and a task hands them on. The
// execution stops reading the guest's output while the queue is full, so that a slow reader slows the guest down
// instead of filling our memory, and never keeps the driver from ending the guest. A sink whose streams have readers of
// their own gets a lane for each.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>

#include "async/task_group.h"
#include "base/result.h"
#include "run/host_calls.h"
#include "run/output.h"

namespace cella::run {

// Bytes of memory, about.
size_t SizeOf(const Event& event);

class EventQueue : public Output {
 public:
  struct Listener {
    std::function<void()> on_room;          // the queue was full and is no more
    std::function<void(Stream)> on_closed;  // the reader of a stream is gone
  };
  // Sink, calls and loop outlive this.
  EventQueue(async::Loop& loop, EventSink& sink, HostCalls& calls, Listener listener)
      : sink_(sink),
        calls_(calls),
        listener_(std::move(listener)),
        two_lanes_(sink.independent_streams()),
        tasks_(loop) {}

  void Push(Event event) override;
  bool full(Stream stream) const override;
  void Call(HostCall call) override { calls_.Take(std::move(call)); }

  bool idle() const { return !lanes_[0].running && !lanes_[1].running; }
  // Drops what is still here.
  void Abandon();
  // Until the last event was handed on; an Error: the sink left with an exception.
  async::Task<Status> Drain();

 private:
  struct Lane {
    std::deque<std::pair<Event, size_t>> events;
    size_t bytes = 0;
    bool running = false;
    bool full() const;
  };
  Lane& LaneOf(const Event& event);
  async::Task<void> HandOn(Lane& lane);

  EventSink& sink_;
  HostCalls& calls_;
  Listener listener_;
  const bool two_lanes_;
  std::array<Lane, 2> lanes_;
  std::array<bool, 2> closed_{};  // by stream
  bool abandoned_ = false;
  async::TaskGroup tasks_;
};

}  // namespace cella::run
