#include "zmtp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "async/deadline.h"

namespace cella::zmtp {
namespace {

constexpr size_t kReadSize = 65536;
constexpr size_t kMaxControl = size_t{1} << 20;

// A peer that is not there yet, or was ended: worth another attempt.
bool IsPassing(const Error& error) {
  switch (error.sys_errno) {
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN: return true;  // a full backlog
    default: return error.code == ErrorCode::kClosed;
  }
}

}  // namespace

Connection::Connection(async::Loop& loop, Endpoint endpoint, PeerOptions options, Listener listener,
                       ConnectionBounds bounds)
    : loop_(loop),
      endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      bounds_(bounds),
      running_(loop),
      writer_(loop) {}

void Connection::Start() { running_.Add(Run()); }

async::Task<void> Connection::Stop() {
  stopping_ = true;
  running_.Cancel();
  co_await running_.Join();
}

async::Task<void> Connection::Run() {
  auto pause = bounds_.pause;
  while (!stopping_) {
    auto socket = co_await Connect(loop_, endpoint_);
    if (stopping_) co_return;
    const unsigned before = connects_;
    Status talked;
    if (socket) {
      talked = co_await Talk(std::move(*socket));
    } else {
      talked = std::unexpected(std::move(socket.error()));
    }
    if (stopping_) co_return;
    if (!talked && !IsPassing(talked.error())) {
      refused_ = std::move(talked.error()).WithContext(ToString(endpoint_));
      if (listener_.on_change) listener_.on_change();
      co_return;
    }
    if (connects_ != before) {
      pause = bounds_.pause;
      if (listener_.on_change) listener_.on_change();
    }
    const bool slept = co_await async::SleepUntil(async::Clock::now() + pause);
    if (!slept) co_return;
    pause = std::min(pause * 2, connects_ == 0 ? bounds_.longest_first_pause : bounds_.longest_pause);
  }
}

// One connection, from the greeting to its end.
async::Task<Status> Connection::Talk(UniqueFd socket) {
  peer_.emplace(options_);
  socket_.emplace(loop_, std::move(socket), async::Sharing::kOurs);
  written_ = 0;
  control_ = peer_->TakeOutput();
  WriteSome();
  auto received = co_await Receive();
  writer_.Cancel();
  co_await writer_.Join();
  writing_ = false;
  // The message that was under way is lost with the connection: a part of it may have arrived.
  if (written_ > 0 && !unsent_.empty()) {
    unsent_bytes_ -= unsent_.front().size();
    unsent_.pop_front();
  }
  written_ = 0;
  socket_.reset();
  peer_.reset();
  co_return received;
}

async::Task<Status> Connection::Receive() {
  std::array<char, kReadSize> buffer;
  const async::TimePoint deadline = async::Clock::now() + bounds_.handshake;
  for (;;) {
    const bool was_ready = peer_->ready();
    bool readable = true;
    if (was_ready) {
      readable = co_await socket_->Readable();
    } else {
      auto in_time = co_await async::WithDeadline(socket_->Readable(), deadline);
      if (!in_time && !stopping_)
        co_return Err(ErrorCode::kUnsupported, "the peer did not finish the ZeroMQ handshake");
      readable = in_time.value_or(false);
    }
    if (!readable || stopping_) co_return Err(ErrorCode::kClosed, "cancelled");
    const ssize_t n = recv(socket_->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) co_return SysErr(errno, "read");
    if (n == 0) co_return Err(ErrorCode::kClosed, "the peer closed the connection");
    CO_TRY_VOID(peer_->Take({buffer.data(), static_cast<size_t>(n)}));
    control_ += peer_->TakeOutput();
    if (control_.size() > kMaxControl) co_return Err(ErrorCode::kInvalid, "the peer sends PING and reads no PONG");
    if (!was_ready && peer_->ready()) {
      ++connects_;
      if (listener_.on_change) listener_.on_change();
    }
    if (!control_.empty() || !unsent_.empty()) WriteSome();
    HandOn();
  }
}

void Connection::HandOn() {
  while (auto message = peer_->Next()) {
    if (listener_.on_message) listener_.on_message(std::move(*message));
  }
}

Status Connection::Send(const std::vector<std::string>& parts) {
  if (refused_) return std::unexpected(*refused_);
  std::string bytes = Peer::Encode(parts);
  if (unsent_bytes_ + bytes.size() > bounds_.unsent_bytes) {
    return Err(ErrorCode::kExhausted, "{}: the peer does not read", ToString(endpoint_));
  }
  unsent_bytes_ += bytes.size();
  unsent_.push_back(std::move(bytes));
  if (ready()) WriteSome();
  return {};
}

// Writes what there is room for at once; a task waits for more room. False: the connection is broken.
bool Connection::WriteSome() {
  if (writing_) return true;
  while (!control_.empty() || (ready() && !unsent_.empty())) {
    // A command may not interrupt a message.
    const bool is_control = !control_.empty() && written_ == 0;
    std::string_view next =
        is_control ? std::string_view(control_) : std::string_view(unsent_.front()).substr(written_);
    const ssize_t n = send(socket_->fd(), next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      writing_ = true;
      writer_.Add(Write());
      return true;
    }
    if (n < 0) return false;  // the reading side sees the end
    if (is_control) {
      control_.erase(0, static_cast<size_t>(n));
      continue;
    }
    written_ += static_cast<size_t>(n);
    if (written_ < unsent_.front().size()) continue;
    unsent_bytes_ -= unsent_.front().size();
    unsent_.pop_front();
    written_ = 0;
  }
  return true;
}

async::Task<void> Connection::Write() {
  const bool writable = co_await socket_->Writable();
  writing_ = false;
  if (writable) WriteSome();
}

}  // namespace cella::zmtp
