#include "os/bound_sockets.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/unique_fd.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::os {
namespace {

constexpr size_t kMaxSockets = 65536;
constexpr uint64_t kMaxFile = uint64_t{16} << 20;  // 250,000 sockets, most of them without a name
constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};

struct Request {
  nlmsghdr header;
  unix_diag_req unix;
};

std::vector<std::string> Unique(std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

// A connected stream socket has the name of the listening one that accepted it; its peer is the only one that can send
// to a connected datagram socket. What is neither is closed (not connected) or listens.
Result<UniqueFd> AskForSockets() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd) return SysErr(errno, "open a netlink socket");
  Request request = {};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.unix.sdiag_family = AF_UNIX;
  request.unix.udiag_states = 1U << TCP_LISTEN | 1U << TCP_CLOSE;
  request.unix.udiag_show = UDIAG_SHOW_NAME;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience) < 0 ||
      RetryOnEintr([&] { return send(fd.get(), &request, sizeof request, 0); }) < 0) {
    return SysErr(errno, "ask for Unix sockets");
  }
  return fd;
}

// The name of one socket; nothing: it has none, or an abstract one.
std::optional<std::string> NameOf(const nlmsghdr& message) {
  size_t left = message.nlmsg_len - NLMSG_LENGTH(sizeof(unix_diag_msg));
  const auto* data = static_cast<const char*>(NLMSG_DATA(&message)) + NLMSG_ALIGN(sizeof(unix_diag_msg));
  while (left >= sizeof(nlattr)) {
    nlattr attribute;
    std::memcpy(&attribute, data, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || attribute.nla_len > left) return std::nullopt;
    if (attribute.nla_type == UNIX_DIAG_NAME) {
      // As long as its program said, perhaps with the zero at the end.
      std::string name(data + NLA_HDRLEN, attribute.nla_len - static_cast<size_t>(NLA_HDRLEN));
      name.resize(std::min(name.find('\0'), name.size()));
      return name.empty() ? std::nullopt : std::optional(std::move(name));
    }
    const size_t step = std::min<size_t>(left, NLA_ALIGN(attribute.nla_len));
    data += step;
    left -= step;
  }
  return std::nullopt;
}

// Takes one batch of answers. True: it was the last.
Result<bool> TakeBatch(std::span<const char> batch, std::vector<std::string>* names) {
  size_t at = 0;
  while (batch.size() - at >= sizeof(nlmsghdr)) {
    // Aligned: the buffer is, and every message begins at a multiple of four.
    const auto& message = *reinterpret_cast<const nlmsghdr*>(batch.data() + at);
    if (message.nlmsg_len < sizeof message || message.nlmsg_len > batch.size() - at) break;
    if (message.nlmsg_type == NLMSG_DONE) return true;
    if (message.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error = {};
      std::memcpy(&error, NLMSG_DATA(&message), std::min<size_t>(sizeof error, message.nlmsg_len - NLMSG_HDRLEN));
      return SysErr(-error.error, "ask for Unix sockets");
    }
    if (message.nlmsg_len >= NLMSG_LENGTH(sizeof(unix_diag_msg))) {
      if (auto name = NameOf(message)) names->push_back(std::move(*name));
    }
    if (names->size() > kMaxSockets) {
      return Err(ErrorCode::kExhausted, "this machine has more than {} Unix sockets with a name", kMaxSockets);
    }
    at += std::min<size_t>(batch.size() - at, NLMSG_ALIGN(message.nlmsg_len));
  }
  return false;
}

Result<std::vector<std::string>> AskKernel() {
  TRY(UniqueFd fd, AskForSockets());
  std::vector<std::string> names;
  alignas(nlmsghdr) std::array<char, 32768> buffer;  // the kernel fills no more at once
  for (;;) {
    const ssize_t n = RetryOnEintr([&] { return recv(fd.get(), buffer.data(), buffer.size(), 0); });
    if (n <= 0) return SysErr(n < 0 ? errno : EIO, "read the list of Unix sockets");
    TRY(bool complete, TakeBatch({buffer.data(), static_cast<size_t>(n)}, &names));
    if (complete) return names;
  }
}

}  // namespace

std::vector<std::string> ParseBoundSockets(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // Num: RefCount Protocol Flags Type St Inode Path. The name is the rest of the line, spaces included.
    for (int field = 0; field < 7 && !line.empty(); ++field) {
      line.remove_prefix(std::min(line.find(' '), line.size()));
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    }
    // '@' is how the kernel writes an abstract name; a relative one that begins so is not told from it.
    if (!line.empty() && line[0] != '@' && line != "Path") names.emplace_back(line);
  }
  return Unique(std::move(names));
}

Result<std::vector<std::string>> BoundSockets() {
  auto asked = AskKernel();
  if (asked) return Unique(std::move(*asked));
  if (asked.error().code == ErrorCode::kExhausted) return asked;
  TRY(std::string text, ReadFile("/proc/net/unix", kMaxFile));
  return ParseBoundSockets(text);
}

}  // namespace cella::os
