// Small RAII and helpers around files, pipes, memfds and message sockets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::os {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Result<Pipe> MakePipe();
// For the output of another process: reading does not block.
Result<Pipe> MakeOutputPipe();

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};
// SOCK_SEQPACKET: messages keep their borders.
Result<SocketPair> MakeMessageSockets();
Result<SocketPair> MakeStreamSockets();

// An anonymous file with this content, positioned at its start.
Result<UniqueFd> MakeMemfd(const char* name, std::span<const std::byte> content);

Status WriteAll(int fd, std::string_view bytes);

// The whole of a file, refused beyond `limit` bytes.
Result<std::string> ReadFile(const std::string& path, uint64_t limit);
Result<std::string> ReadFd(int fd, uint64_t limit);

// One message and descriptors beside it.
Status SendMessage(int socket, std::span<const std::byte> message, std::span<const int> fds);

struct Received {
  size_t size = 0;  // 0: the peer is gone
  std::vector<UniqueFd> fds;
  bool lost_fds = false;  // some came, but we may have no more of them
};
// Never waits (EAGAIN), whatever the other side may do to the flags of a description that we share. More descriptors
// than `max_fds` are lost.
Result<Received> ReceiveMessage(int socket, std::span<std::byte> buffer, size_t max_fds = 32);

// The directory that holds the running program, symbolic links resolved.
Result<std::string> ProgramDirectory();

}  // namespace cella::os
