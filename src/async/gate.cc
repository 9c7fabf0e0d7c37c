#include "async/gate.h"

#include "async/deadline.h"

namespace cella::async {

Task<Gate::Pass> Gate::Enter() {
  if (free_ > 0 && waiting_.empty()) {
    --free_;
    co_return Pass(this);
  }
  auto place = waiting_.emplace(waiting_.end(), loop_);
  // A pass that is given back hands its place over without freeing it. A task that is cancelled here still gets the
  // place, and gives it back at once.
  while (!place->is_set()) (void)co_await place->Wait();
  waiting_.erase(place);
  co_return Pass(this);
}

Task<std::optional<Gate::Pass>> Gate::EnterOr(Task<bool> stop) {
  if (free_ > 0 && waiting_.empty()) {
    --free_;
    co_return Pass(this);
  }
  auto place = waiting_.emplace(waiting_.end(), loop_);
  (void)co_await FirstOf(place->Wait(), std::move(stop));
  const bool entered = place->is_set();
  waiting_.erase(place);
  if (!entered) co_return std::nullopt;
  co_return Pass(this);
}

void Gate::Leave() {
  for (Event& next : waiting_) {
    if (next.is_set()) continue;
    next.Set();
    return;
  }
  ++free_;
}

}  // namespace cella::async
