// The connection file: the addresses on which a kernel listens, and the key that signs its messages.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "zmtp/endpoint.h"

namespace cella::jupyter {

enum class Channel { kShell, kIopub, kStdin, kControl, kHeartbeat };
inline constexpr size_t kChannels = 5;

struct Connection {
  // ipc: sockets are files "k-1" to "k-5" of this directory; `path` is its path as the kernel sees it. Else tcp.
  std::shared_ptr<const UniqueFd> directory;
  std::string path;
  std::array<uint16_t, kChannels> ports = {1, 2, 3, 4, 5};  // in the order of Channel
  std::string key;
  std::string kernel_name;

  bool is_ipc() const { return directory != nullptr; }
  zmtp::Endpoint EndpointOf(Channel channel) const;
  // The content of the file.
  std::string Encode() const;
};

// Sockets in a directory, whose path is `path` for the kernel. kInvalid: the path is too long for the name of a socket.
Result<Connection> MakeIpcConnection(std::shared_ptr<const UniqueFd> directory, std::string path,
                                     std::string kernel_name);
// Ports of 127.0.0.1 that are free now. Another process may take one before the kernel does; the kernel then fails.
Result<Connection> MakeTcpConnection(std::string kernel_name);

// A UUID, which also serves as a key.
Result<std::string> MakeUuid();

}  // namespace cella::jupyter
