#include "os/io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "os/syscalls.h"

namespace cella::os {

constexpr size_t kMaxFdsPerMessage = 200;  // the kernel takes 253

Result<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0) return SysErr(errno, "make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<Pipe> MakeOutputPipe() {
  TRY(Pipe pipe, MakePipe());
  if (fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) < 0) return SysErr(errno, "make a pipe");
  return pipe;
}

namespace {

Result<SocketPair> MakeSockets(int type) {
  int fds[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0) return SysErr(errno, "make a socket pair");
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace

Result<SocketPair> MakeMessageSockets() { return MakeSockets(SOCK_SEQPACKET); }

Result<SocketPair> MakeStreamSockets() { return MakeSockets(SOCK_STREAM); }

Result<UniqueFd> MakeMemfd(const char* name, std::span<const std::byte> content) {
  UniqueFd fd(static_cast<int>(syscall(SYS_memfd_create, name, MFD_CLOEXEC)));
  if (!fd) return SysErr(errno, "make a memfd");
  TRY_VOID(WriteAll(fd.get(), {reinterpret_cast<const char*>(content.data()), content.size()}));
  if (lseek(fd.get(), 0, SEEK_SET) < 0) return SysErr(errno, "rewind a memfd");
  return fd;
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = RetryOnEintr([&] { return write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return SysErr(errno, "write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<std::string> ReadFd(int fd, uint64_t limit) {
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    ssize_t n = RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); });
    if (n < 0) return SysErr(errno, "read");
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
    if (content.size() > limit) return Err(ErrorCode::kInvalid, "larger than {} bytes", limit);
  }
}

Result<std::string> ReadFile(const std::string& path, uint64_t limit) {
  // Guests leave files of every kind: without O_NONBLOCK the open of a FIFO would wait for a writer, for ever.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return SysErr(errno, "open '{}'", path);
  struct stat info;
  if (fstat(fd.get(), &info) < 0) return SysErr(errno, "open '{}'", path);
  if (S_ISFIFO(info.st_mode)) return Err(ErrorCode::kUnsupported, "'{}' is a FIFO, and no file", path);
  auto content = ReadFd(fd.get(), limit);
  if (!content) return std::unexpected(std::move(content.error()).WithContext(fmt::format("'{}'", path)));
  return content;
}

Status SendMessage(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  if (fds.size() > kMaxFdsPerMessage) return Err(ErrorCode::kInvalid, "too many descriptors in one message");
  iovec part = {const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)> control{};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  if (RetryOnEintr([&] { return sendmsg(socket, &header, MSG_NOSIGNAL); }) < 0) return SysErr(errno, "send a message");
  return {};
}

Result<Received> ReceiveMessage(int socket, std::span<std::byte> buffer, size_t max_fds) {
  iovec part = {buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)> control{};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(sizeof(int) * std::min(max_fds, kMaxFdsPerMessage));
  auto receive = [&] { return recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT); };
  ssize_t n = RetryOnEintr(receive);
  // Reported once, ahead of what the peer sent, if the peer closed its end without having read all of it.
  if (n < 0 && errno == ECONNRESET) n = RetryOnEintr(receive);
  if (n < 0) return SysErr(errno, "receive a message");
  Received received;
  received.size = static_cast<size_t>(n);
  received.lost_fds = (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  return received;
}

Result<std::string> ProgramDirectory() {
  std::array<char, PATH_MAX> path;
  ssize_t n = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (n < 0) return SysErr(errno, "find the running program");
  std::string_view whole(path.data(), static_cast<size_t>(n));
  return std::string(whole.substr(0, whole.rfind('/')));
}

}  // namespace cella::os
