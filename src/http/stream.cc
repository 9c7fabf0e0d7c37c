#include "http/stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cella::http {

namespace asio = boost::asio;
using async::Clock;
using async::Task;

namespace {

// A writer whose peer takes everything at once never waits; after so many writes it lets others have the loop.
constexpr unsigned kYieldAfter = 16;

void RemovePrefix(Stream::Parts& parts, size_t n) {
  for (std::string_view& part : parts) {
    const size_t taken = std::min(n, part.size());
    part.remove_prefix(taken);
    n -= taken;
  }
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::Create(async::Loop& loop, UniqueFd fd, Deadlines* deadlines) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) < 0) return SysErr(errno, "getsockname");
  Socket socket(loop.context());
  boost::system::error_code error;
  socket.assign(asio::generic::stream_protocol(address.ss_family, 0), fd.get(), error);
  if (error) return SysErr(error.value(), "watch a connection");
  (void)fd.Release();
  return std::unique_ptr<Stream>(new Stream(loop, std::move(socket), deadlines));
}

Stream::Stream(async::Loop&, Socket socket, Deadlines* deadlines) : Watched(deadlines), socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.native_non_blocking(true, ignored);
}

Stream::~Stream() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

// After an operation was aborted: why the caller must give up, or nothing when it was not meant.
Task<std::optional<Error>> Stream::WhyAborted() {
  auto state = co_await asio::this_coro::cancellation_state;
  if (killed_) co_return Error{ErrorCode::kClosed, "the connection was given up", 0};
  if (state.cancelled() != asio::cancellation_type::none) co_return Error{ErrorCode::kClosed, "cancelled", ECANCELED};
  co_return std::nullopt;
}

Task<Status> Stream::Wait(Socket::wait_type what) {
  co_await asio::this_coro::throw_if_cancelled(false);
  if (killed_) co_return Err(ErrorCode::kClosed, "the connection was given up");
  boost::system::error_code error;
  co_await socket_.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  auto why = co_await WhyAborted();
  if (why) co_return std::unexpected(std::move(*why));
  if (error && error != asio::error::operation_aborted) co_return SysErr(error.value(), "wait for a connection");
  co_return Status{};
}

Task<Status> Stream::Handshake(TlsSession session) {
  tls_.emplace(std::move(session));
  for (;;) {
    CO_TRY(TlsSession::Step step, tls_->Handshake());
    if (step.outcome == TlsSession::Outcome::kDone) co_return Status{};
    if (step.outcome == TlsSession::Outcome::kEnd) co_return Err(ErrorCode::kClosed, "TLS handshake: the peer left");
    const bool reads = step.outcome == TlsSession::Outcome::kWantsRead;
    Status waited = co_await Wait(reads ? Socket::wait_read : Socket::wait_write);
    CO_TRY_VOID(waited);
    if (read_expired_) co_return std::unexpected(Error{ErrorCode::kClosed, "TLS handshake: too slow", ETIMEDOUT});
  }
}

Task<Result<size_t>> Stream::ReadEncrypted(std::span<char> buffer) {
  for (;;) {
    CO_TRY(TlsSession::Step step, tls_->Read(buffer.data(), buffer.size()));
    if (step.outcome == TlsSession::Outcome::kDone) co_return step.bytes;
    if (step.outcome == TlsSession::Outcome::kEnd) co_return size_t{0};
    const bool reads = step.outcome == TlsSession::Outcome::kWantsRead;
    Status waited = co_await Wait(reads ? Socket::wait_read : Socket::wait_write);
    CO_TRY_VOID(waited);
    if (read_expired_) co_return std::unexpected(Error{ErrorCode::kClosed, "the peer is too slow", ETIMEDOUT});
    if (read_cancelled_) co_return Err(ErrorCode::kClosed, "cancelled");
  }
}

Task<Result<size_t>> Stream::Read(std::span<char> buffer) {
  co_await asio::this_coro::throw_if_cancelled(false);
  read_cancelled_ = false;
  if (killed_) co_return Err(ErrorCode::kClosed, "the connection was given up");
  if (read_expired_) co_return std::unexpected(Error{ErrorCode::kClosed, "the peer is too slow", ETIMEDOUT});
  if (tls_) {
    Result<size_t> read = co_await ReadEncrypted(buffer);
    co_return read;
  }
  for (;;) {
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    size_t n = co_await socket_.async_read_some(asio::buffer(buffer.data(), buffer.size()), token);
    if (!error) co_return n;
    if (error == asio::error::eof) co_return size_t{0};
    if (error != asio::error::operation_aborted) {
      co_return std::unexpected(Error{ErrorCode::kClosed, ErrnoText(error.value()), error.value()});
    }
    auto why = co_await WhyAborted();
    if (why) co_return std::unexpected(std::move(*why));
    if (read_expired_) co_return std::unexpected(Error{ErrorCode::kClosed, "the peer is too slow", ETIMEDOUT});
    if (read_cancelled_) co_return Err(ErrorCode::kClosed, "cancelled");
  }
}

// True when all is written; else the socket must be waited for.
Result<bool> Stream::TryWrite(Parts& parts, bool& progress) {
  for (;;) {
    if (tls_) {
      std::string_view* next = nullptr;
      for (std::string_view& part : parts) {
        if (next == nullptr && !part.empty()) next = &part;
      }
      if (next == nullptr) return true;
      TRY(TlsSession::Step step, tls_->Write(next->data(), next->size()));
      if (step.outcome == TlsSession::Outcome::kEnd) return Err(ErrorCode::kClosed, "the peer closed the connection");
      tls_write_wants_read_ = step.outcome == TlsSession::Outcome::kWantsRead;
      if (step.outcome != TlsSession::Outcome::kDone) return false;
      progress = true;
      next->remove_prefix(step.bytes);
      continue;
    }
    std::array<iovec, std::tuple_size_v<Parts>> vectors;
    size_t count = 0, left = 0;
    for (std::string_view part : parts) {
      if (part.empty()) continue;
      vectors[count++] = {const_cast<char*>(part.data()), part.size()};
      left += part.size();
    }
    if (left == 0) return true;
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    ssize_t n = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0) return std::unexpected(Error{ErrorCode::kClosed, ErrnoText(errno), errno});
    progress = true;
    RemovePrefix(parts, static_cast<size_t>(n));
    if (static_cast<size_t>(n) < left) return false;
  }
}

Task<Status> Stream::Write(Parts parts, std::chrono::nanoseconds patience) {
  co_await asio::this_coro::throw_if_cancelled(false);
  bool waited = false, progress = true;
  for (;;) {
    if (killed_) co_return Err(ErrorCode::kClosed, "the connection was given up");
    Result<bool> done = TryWrite(parts, progress);
    if (!done || *done) {
      if (waited) ClearWriteDeadline();
      if (!done) co_return std::unexpected(std::move(done.error()));
      break;
    }
    if (progress) SetWriteDeadline(Clock::now() + patience);
    progress = false;
    waited = true;
    Status ready = co_await Wait(tls_write_wants_read_ ? Socket::wait_read : Socket::wait_write);
    if (!ready) {
      ClearWriteDeadline();
      co_return ready;
    }
  }
  if (!waited && ++at_once_ % kYieldAfter == 0) {
    auto executor = co_await asio::this_coro::executor;
    co_await asio::post(executor, asio::use_awaitable);
  }
  co_return Status{};
}

void Stream::WriteNow(std::string_view bytes) {
  Parts parts = {bytes, {}, {}};
  bool progress = false;
  if (!killed_) (void)TryWrite(parts, progress);
}

bool Stream::PeerIsGone() {
  if (killed_) return true;
  pollfd one = {.fd = fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Stream::CancelRead() {
  read_cancelled_ = true;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::EndWriting() {
  if (killed_) return;
  if (tls_) tls_->SendEnd();
  (void)shutdown(fd(), SHUT_WR);
}

void Stream::Kill(Manner manner) {
  if (killed_) return;
  killed_ = true;
  if (manner == Manner::kAbrupt) {
    linger reset = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  } else {
    (void)shutdown(fd(), SHUT_RDWR);
  }
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::OnReadDeadline() {
  read_expired_ = true;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Stream::OnWriteDeadline() { Kill(Manner::kAbrupt); }

}  // namespace cella::http
