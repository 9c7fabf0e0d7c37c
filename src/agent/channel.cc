#include "agent/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <span>

#include "os/io.h"
#include "os/syscalls.h"

namespace cella::agent {

Channel::Channel(uint32_t number, UniqueFd fd) : number_(number), fd_(std::move(fd)) {
  if (fd_) (void)fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

void Channel::Close() {
  fd_.Reset();
  pending_.clear();
}

bool Channel::Take(std::string_view bytes) {
  if (!is_open()) return true;  // the program reads no more
  if (bytes.size() > kWindow - pending_.size()) return false;
  pending_ += bytes;
  return true;
}

uint32_t Channel::Write() {
  size_t gone = 0;
  while (is_open() && gone < pending_.size()) {
    const char* from = pending_.data() + gone;
    // SIGPIPE is ignored: a program that does not read is its own affair.
    const ssize_t n = os::RetryOnEintr([&] { return write(fd_.get(), from, pending_.size() - gone); });
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      gone = pending_.size();
      fd_.Reset();
      break;
    }
    gone += static_cast<size_t>(n);
  }
  pending_.erase(0, gone);
  if (closes_ && pending_.empty()) Close();
  return static_cast<uint32_t>(gone);
}

void Channel::CloseWhenWritten() {
  closes_ = true;
  if (pending_.empty()) Close();
}

void Channel::AddCredit(uint32_t bytes) { credit_ = std::min(kWindow, credit_ + std::min(bytes, kWindow)); }

Channel::Got Channel::Read(std::string& into, size_t at_most) {
  std::array<char, 65536> buffer;
  const size_t wanted = std::min({buffer.size(), at_most, static_cast<size_t>(credit_)});
  if (!is_open() || wanted == 0) return Got::kNothing;
  const ssize_t n = os::RetryOnEintr([&] { return read(fd_.get(), buffer.data(), wanted); });
  if (n < 0 && errno == EAGAIN) return Got::kNothing;
  if (n <= 0) return Got::kEnd;
  into.append(buffer.data(), static_cast<size_t>(n));
  credit_ -= static_cast<uint32_t>(n);
  return Got::kBytes;
}

Channel::Got Channel::Receive(std::string& into, std::vector<UniqueFd>& fds) {
  std::array<char, 65536> buffer;
  const size_t wanted = std::min<size_t>(buffer.size(), credit_);
  if (!is_open() || wanted == 0) return Got::kNothing;
  auto received = os::ReceiveMessage(fd_.get(), std::as_writable_bytes(std::span(buffer).first(wanted)));
  if (!received && received.error().sys_errno == EAGAIN) return Got::kNothing;
  if (!received || received->size == 0) return Got::kEnd;
  into.append(buffer.data(), received->size);
  credit_ -= static_cast<uint32_t>(received->size);
  std::ranges::move(received->fds, std::back_inserter(fds));
  return Got::kBytes;
}

}  // namespace cella::agent
