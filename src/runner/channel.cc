#include "runner/channel.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "runner/protocol.h"

namespace cella::runner {
namespace {

constexpr size_t kHeader = sizeof(uint32_t);
constexpr size_t kReadSize = 16384;
constexpr size_t kMaxDescriptors = 8;

// Little-endian, at the start of a frame.
uint32_t LengthAt(std::string_view frame) {
  uint32_t length = 0;
  for (size_t i = 0; i < kHeader; ++i) length |= uint32_t{static_cast<uint8_t>(frame[i])} << (8 * i);
  return length;
}

std::string FrameOf(std::string_view payload) {
  std::string frame(kHeader, '\0');
  auto length = static_cast<uint32_t>(payload.size());
  for (size_t i = 0; i < kHeader; ++i) frame[i] = static_cast<char>(length >> (8 * i));
  frame += payload;
  return frame;
}

int IntOption(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<Channel> Channel::Open(UniqueFd socket) {
  if (IntOption(socket.get(), SO_DOMAIN) != AF_UNIX || IntOption(socket.get(), SO_TYPE) != SOCK_STREAM) {
    return Err(ErrorCode::kInvalid, "not a stream socket");
  }
  int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) < 0) return SysErr(errno, "a runner's socket");
  Channel channel;
  channel.socket_ = std::move(socket);
  return channel;
}

async::Task<Status> Channel::Send(async::Loop& loop, std::string_view payload, async::TimePoint deadline) {
  const std::string frame = FrameOf(payload);
  std::string_view rest = frame;
  std::optional<async::Descriptor> writer;  // where there is no room at once
  std::shared_ptr<bool> half_sent;
  for (;;) {
    // Once this was suspended, another socket may stand in the place of ours.
    const int fd = writer ? writer->fd() : socket_.get();
    ssize_t n = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) co_return SysErr(errno, "send to the runner");
    if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
    if (rest.empty()) {
      if (half_sent) *half_sent = false;
      co_return Status{};
    }
    if (!writer) {
      UniqueFd own(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 3));
      if (!own) co_return SysErr(errno, "send to the runner");
      writer.emplace(loop, std::move(own), async::Sharing::kShared);
      half_sent = half_sent_ = std::make_shared<bool>(true);
    }
    auto room = co_await async::WithDeadline(writer->Writable(), deadline);
    if (!room || !*room) co_return Err(ErrorCode::kClosed, "the runner does not read");
  }
}

bool Channel::SendNow(std::string_view payload) {
  if (half_sent_ && *half_sent_) return false;
  const std::string frame = FrameOf(payload);
  // A frame that fits into one buffer of the kernel's is taken whole or refused.
  ssize_t n = os::RetryOnEintr([&] { return send(fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
  return n == static_cast<ssize_t>(frame.size());
}

bool Channel::HasUnread() const {
  int unread = 0;
  return ioctl(fd(), SIOCOUTQ, &unread) == 0 && unread > 0;
}

Result<Channel::Arrival> Channel::Receive() {
  for (bool some = false;; some = true) {
    // What is whole is taken before more is read.
    if (consumed_ > 0) buffer_.erase(0, std::exchange(consumed_, 0));
    if (buffer_.size() >= kHeader) {
      if (LengthAt(buffer_) > kMaxFrameFromRunner) return Err(ErrorCode::kInvalid, "a frame too large");
      if (buffer_.size() - kHeader >= LengthAt(buffer_)) return Arrival::kSome;
    }
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadSize);
    auto part = std::as_writable_bytes(std::span(buffer_).subspan(before));
    auto received = os::ReceiveMessage(socket_.get(), part);
    buffer_.resize(before + (received ? received->size : 0));
    if (!received) {
      if (received.error().sys_errno == EAGAIN) return some ? Arrival::kSome : Arrival::kNothing;
      return std::unexpected(std::move(received.error()));
    }
    for (UniqueFd& fd : received->fds) descriptors_.push_back(std::move(fd));
    if (descriptors_.size() > kMaxDescriptors) return Err(ErrorCode::kInvalid, "too many descriptors");
    if (received->size == 0) return Arrival::kClosed;
  }
}

std::optional<std::string_view> Channel::Next() {
  std::string_view rest = std::string_view(buffer_).substr(consumed_);
  if (rest.size() < kHeader) return std::nullopt;
  const uint32_t length = LengthAt(rest);
  if (rest.size() - kHeader < length) return std::nullopt;
  consumed_ += kHeader + length;
  return rest.substr(kHeader, length);
}

UniqueFd Channel::TakeDescriptor() {
  if (descriptors_.empty()) return {};
  UniqueFd fd = std::move(descriptors_.front());
  descriptors_.pop_front();
  return fd;
}

}  // namespace cella::runner
