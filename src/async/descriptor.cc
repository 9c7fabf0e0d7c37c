#include "async/descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::async {

namespace asio = boost::asio;
using WaitType = asio::posix::stream_descriptor::wait_type;

namespace {

Task<bool> WaitFor(asio::posix::stream_descriptor& descriptor, WaitType what) {
  co_await asio::this_coro::throw_if_cancelled(false);
  boost::system::error_code error;
  co_await descriptor.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  // Regular files cannot be polled, and never block.
  co_return !error || error == asio::error::operation_not_supported;
}

}  // namespace

Opened OpenPrivately(int fd, int access) {
  struct stat info;
  if (fstat(fd, &info) == 0 && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode))) {
    std::string path = fmt::format("/proc/self/fd/{}", fd);
    UniqueFd own(open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own) return {std::move(own), Sharing::kOurs};
  }
  return {UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 3)), Sharing::kShared};
}

Descriptor::Descriptor(Loop& loop, UniqueFd fd, Sharing sharing)
    : descriptor_(loop.context()), unwatched_(std::move(fd)) {
  const int flags = fcntl(unwatched_.get(), F_GETFL);
  if (sharing == Sharing::kOurs && flags >= 0) (void)fcntl(unwatched_.get(), F_SETFL, flags | O_NONBLOCK);
  Watch();
}

void Descriptor::Watch() {
  constexpr auto kTryEvery = std::chrono::seconds(1);
  if (Clock::now() < next_try_) return;
  next_try_ = Clock::now() + kTryEvery;
  boost::system::error_code error;
  descriptor_.assign(unwatched_.get(), error);
  if (error) return;
  const int flags = fcntl(unwatched_.get(), F_GETFL);
  (void)unwatched_.Release();
  descriptor_.native_non_blocking(true, error);
  // Asio would make it non-blocking at its first wait unless its own flag says that this was done. So the flag is set,
  // and the mode restored.
  if (flags >= 0) (void)fcntl(fd(), F_SETFL, flags);
}

Task<bool> Descriptor::Poll(short events) {
  constexpr auto kPollEvery = std::chrono::milliseconds(5);
  const auto before = (co_await asio::this_coro::cancellation_state).cancelled();
  for (const uint64_t stops = stops_; unwatched_ && stops == stops_;) {
    pollfd asked = {.fd = unwatched_.get(), .events = events, .revents = 0};
    if (poll(&asked, 1, 0) != 0) co_return true;
    bool slept = co_await SleepUntil(Clock::now() + kPollEvery);
    // A cancellation that comes between two sleeps is not noticed by the second.
    const auto now = (co_await asio::this_coro::cancellation_state).cancelled();
    if (!slept || now != before) co_return false;
  }
  co_return false;
}

void Descriptor::Close() {
  unwatched_.Reset();
  boost::system::error_code ignored;
  if (descriptor_.is_open()) descriptor_.close(ignored);
}

Task<bool> Descriptor::Readable() {
  if (unwatched_) Watch();
  return unwatched_ ? Poll(POLLIN) : WaitFor(descriptor_, WaitType::wait_read);
}

Task<bool> Descriptor::Writable() {
  if (unwatched_) Watch();
  return unwatched_ ? Poll(POLLOUT) : WaitFor(descriptor_, WaitType::wait_write);
}

void Descriptor::StopWaiting() {
  ++stops_;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
}

Task<Result<size_t>> Descriptor::ReadSome(std::span<char> buffer) {
  for (;;) {
    bool ready = co_await Readable();
    if (!ready) co_return size_t{0};
    ssize_t n = ::read(fd(), buffer.data(), buffer.size());
    if (n >= 0) co_return static_cast<size_t>(n);
    if (errno == EINTR || errno == EAGAIN) continue;
    // A pseudo terminal whose other side closed reads as EIO: that is its end of file.
    if (errno == EIO) co_return size_t{0};
    co_return SysErr(errno, "read");
  }
}

Task<Status> Descriptor::WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    bool ready = co_await Writable();
    if (!ready) co_return Err(ErrorCode::kClosed, "cancelled");
    // "Writable" promises room for PIPE_BUF bytes and no more: a larger write to a full pipe would block the loop.
    ssize_t n = ::write(fd(), bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) co_return SysErr(errno, "write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  co_return Status{};
}

}  // namespace cella::async
