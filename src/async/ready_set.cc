#include "async/ready_set.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cella::async {
namespace {

constexpr int kTimer = -1;
constexpr unsigned kYieldAfter = 4;

constexpr auto kPollEvery = std::chrono::milliseconds(5);

}  // namespace

ReadySet::ReadySet(Loop& loop, UniqueFd epoll, UniqueFd timer)
    : epoll_(loop, std::move(epoll), Sharing::kShared), timer_(std::move(timer)) {}

Result<ReadySet> ReadySet::Create(Loop& loop) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll || !timer) return SysErr(errno, "make a set of descriptors");
  ReadySet set(loop, std::move(epoll), std::move(timer));
  TRY_VOID(set.Add(set.timer_.get(), kTimer));
  return set;
}

Status ReadySet::Add(int fd, int key) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = key;
  if (epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno != ENOSPC && errno != ENOMEM) return SysErr(errno, "watch a descriptor");
  polled_.push_back({fd, key});
  return {};
}

void ReadySet::Remove(int fd) {
  (void)epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
  std::erase_if(polled_, [fd](const Polled& each) { return each.fd == fd; });
}

size_t ReadySet::TakePolled(size_t count) {
  for (const Polled& each : polled_) {
    pollfd asked = {.fd = each.fd, .events = POLLIN, .revents = 0};
    if (count == keys_.size() || poll(&asked, 1, 0) <= 0) continue;
    if (each.key == kTimer) {
      uint64_t drained;
      (void)!read(each.fd, &drained, sizeof drained);
    } else {
      keys_[count++] = each.key;
    }
  }
  return count;
}

void ReadySet::SetDeadline(TimePoint deadline) {
  if (deadline == deadline_) return;
  deadline_ = deadline;
  itimerspec spec = {};
  if (deadline != TimePoint::max()) {
    // The steady clock is CLOCK_MONOTONIC. Zero would disarm.
    auto since = std::max<std::chrono::nanoseconds>(deadline.time_since_epoch(), std::chrono::nanoseconds(1));
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (since - seconds).count();
  }
  (void)timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void ReadySet::Wake() {
  woken_ = true;
  epoll_.StopWaiting();
}

Task<std::span<const int>> ReadySet::Wait() {
  std::array<epoll_event, 8> events;
  int n = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
  size_t count = TakePolled(0);
  const bool woken = std::exchange(woken_, false);
  // A source that is always ready would starve the other tasks of the loop.
  const bool yields = n > 0 && ++at_once_ % kYieldAfter == 0;
  if (!polled_.empty() && count == 0 && n <= 0 && !woken) {
    (void)co_await SleepUntil(std::min(deadline_, Clock::now() + kPollEvery));
    n = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
    count = TakePolled(0);
    woken_ = false;
  } else if ((n <= 0 && count == 0 && !woken) || yields) {
    bool readable = co_await epoll_.Readable();
    if (readable) n = epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
    woken_ = false;
  }
  for (int i = 0; i < n; ++i) {
    int key = events[static_cast<size_t>(i)].data.fd;
    if (key == kTimer) {
      uint64_t drained;
      (void)!read(timer_.get(), &drained, sizeof drained);
    } else if (count < keys_.size()) {
      keys_[count++] = key;
    }
  }
  co_return std::span<const int>(keys_).first(count);
}

}  // namespace cella::async
