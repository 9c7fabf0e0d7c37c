#include "run/stop.h"

namespace cella::run {

int Strength(StopReason reason) {
  switch (reason) {
    case StopReason::kInterrupt: return 0;
    case StopReason::kCancel:
    case StopReason::kClientGone:
    case StopReason::kClosing:
    case StopReason::kTimeout: return 1;
    case StopReason::kCpuTime:
    case StopReason::kMemory:
    case StopReason::kProcesses: return 2;
  }
  return 0;
}

bool StopToken::ending() const { return source_ != nullptr && source_->reason_ && EndsRun(*source_->reason_); }

async::Task<bool> StopToken::Ending() const {
  if (source_ == nullptr) co_return false;
  bool ending = co_await source_->ending_.Wait();
  co_return ending;
}

bool StopSource::Request(StopReason reason, std::string because) {
  if (closed_) return false;
  if (reason == StopReason::kInterrupt) {
    if (!interruptible_ || (reason_ && EndsRun(*reason_))) return false;
    ++interrupts_;
  } else if (reason_ && Strength(*reason_) >= Strength(reason)) {
    return false;
  }
  reason_ = reason;
  because_ = std::move(because);
  if (EndsRun(reason)) ending_.Set();
  if (listener_) listener_();
  return true;
}

}  // namespace cella::run
