// What an execution emits into: a bounded queue in front of the sink, and the gate for calls to the host.
#pragma once

#include "async/task.h"
#include "cella/event.h"
#include "run/host_call.h"

namespace cella::run {

class EventSink {
 public:
  virtual ~EventSink() = default;
  // Awaited: a slow reader slows the guest down instead of filling our memory. False: the reader of an output stream is
  // gone, and the guest gets a closed pipe.
  virtual async::Task<bool> Emit(Event event) = 0;
  // The streams have readers of their own: one that is slow must not delay the other.
  virtual bool independent_streams() const { return false; }
};

class Output {
 public:
  virtual ~Output() = default;
  virtual void Push(Event event) = 0;
  // The execution stops reading a stream, and everything else of the guest, while it is full.
  virtual bool full(Stream stream) const = 0;
  bool full() const { return full(Stream::kStdout) || full(Stream::kStderr); }
  // The answer comes through Execution::Answer.
  virtual void Call(HostCall call) = 0;
};

}  // namespace cella::run
