#include "http/deadlines.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::http {

namespace asio = boost::asio;
using async::Clock;
using async::TimePoint;

namespace {

// Two sweeps are at least this far apart, so that ten thousand connections cost little.
constexpr auto kStep = std::chrono::milliseconds(25);

}  // namespace

Watched::Watched(Deadlines* deadlines) : deadlines_(deadlines) {
  if (deadlines_ == nullptr) return;
  index_ = deadlines_->watched_.size();
  deadlines_->watched_.push_back(this);
}

Watched::~Watched() {
  if (deadlines_ == nullptr) return;
  auto& list = deadlines_->watched_;
  list[index_] = list.back();
  list[index_]->index_ = index_;
  list.pop_back();
}

void Watched::SetReadDeadline(TimePoint when) {
  read_deadline_ = when;
  if (deadlines_ != nullptr) deadlines_->NoticeBefore(when);
}

void Watched::SetWriteDeadline(TimePoint when) {
  write_deadline_ = when;
  if (deadlines_ != nullptr) deadlines_->NoticeBefore(when);
}

void Deadlines::NoticeBefore(TimePoint when) {
  if (when >= armed_) return;
  armed_ = when;
  timer_.expires_at(when);  // wakes Run, which waits anew
}

void Deadlines::Sweep() {
  const TimePoint now = Clock::now();
  // An expiry only marks and cancels; it destroys no connection, so the list stays as it is.
  TimePoint next = TimePoint::max();
  for (Watched* one : watched_) {
    if (one->read_deadline_ <= now) {
      one->ClearReadDeadline();
      one->OnReadDeadline();
    }
    if (one->write_deadline_ <= now) {
      one->ClearWriteDeadline();
      one->OnWriteDeadline();
    }
    next = std::min({next, one->read_deadline_, one->write_deadline_});
  }
  if (next != TimePoint::max()) next = std::max(next, now + kStep);
  armed_ = next;
  timer_.expires_at(next);
}

async::Task<void> Deadlines::Run() {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!stopped_) {
    boost::system::error_code error;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) break;
    if (!error && Clock::now() >= armed_) Sweep();
  }
}

void Deadlines::Stop() {
  stopped_ = true;
  timer_.cancel();
}

}  // namespace cella::http
