// Requests to stop one run. A request belongs to a run, not to a session: after the run's code is over it is dropped,
// so that a late one never reaches the next run. Used on the loop.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "async/event.h"
#include "cella/run.h"

namespace cella::run {

// Interrupt < cancel, client gone, closing, timeout < processor time, memory, processes.
int Strength(StopReason reason);
inline bool EndsRun(StopReason reason) { return Strength(reason) > 0; }

class StopSource;

// A view of a source, which outlives it. An empty token is never stopped.
class StopToken {
 public:
  StopToken() = default;

  // A request to end the run stands; interrupts do not count.
  bool ending() const;
  // Waits for such a request. False: the wait was cancelled, or the token is empty.
  async::Task<bool> Ending() const;

 private:
  friend class StopSource;
  explicit StopToken(StopSource* source) : source_(source) {}
  StopSource* source_ = nullptr;
};

class StopSource {
 public:
  explicit StopSource(async::Loop& loop) : ending_(loop) {}
  StopSource(const StopSource&) = delete;
  StopSource& operator=(const StopSource&) = delete;

  // False: the code is over, or a request of this strength or a stronger one stands. Interrupts repeat.
  bool Request(StopReason reason, std::string because = "");
  // The code of the last block is over: there is nothing left to interrupt.
  void CloseToInterrupts() { interruptible_ = false; }
  // The run is over: later requests are dropped.
  void Close() { closed_ = true; }

  bool closed() const { return closed_; }
  std::optional<StopReason> reason() const { return reason_; }  // the strongest so far
  const std::string& because() const { return because_; }
  unsigned interrupts() const { return interrupts_; }
  StopToken token() { return StopToken(this); }

  // Called after each request that is accepted; empty: nothing is.
  void SetListener(std::function<void()> listener) { listener_ = std::move(listener); }

 private:
  friend class StopToken;
  std::optional<StopReason> reason_;
  std::string because_;
  unsigned interrupts_ = 0;
  bool interruptible_ = true;
  bool closed_ = false;
  async::Event ending_;
  std::function<void()> listener_;
};

}  // namespace cella::run
