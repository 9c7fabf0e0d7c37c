// Lets at most so many through at once; the others wait in the order in which they came.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <utility>

#include "async/event.h"
#include "async/task.h"

namespace cella::async {

class Gate {
 public:
  Gate(Loop& loop, size_t places) : loop_(loop), free_(places) {}

  // A place, given back when it goes away. The gate outlives it.
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    Gate* gate_;
  };

  Task<Pass> Enter();
  // Nothing when `stop` ended first; the place in the line is then free for the next.
  Task<std::optional<Pass>> EnterOr(Task<bool> stop);
  size_t waiting() const { return waiting_.size(); }

 private:
  void Leave();

  Loop& loop_;
  size_t free_;
  std::list<Event> waiting_;
};

}  // namespace cella::async
