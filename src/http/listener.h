// A listening socket, opened here or inherited. Closing it removes the file of a Unix socket, if that is still ours.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "http/address.h"
#include "http/tls.h"

namespace cella::http {

class SocketFile;

struct ListenOptions {
  mode_t socket_mode = 0600;  // of a Unix socket's file
  int backlog = 1024;
  std::optional<Tls> tls = std::nullopt;  // TCP only
};

class Listener {
 public:
  // A host name is resolved, which may take a while: not on a loop that serves.
  static Result<Listener> Open(const Address& address, const ListenOptions& options);
  // A socket that another program made listen, as systemd does. Its file, if any, is theirs.
  static Result<Listener> Adopt(UniqueFd fd, std::optional<Tls> tls);

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // Where it really listens: numeric, and with the port that was found for port 0.
  const Address& address() const { return address_; }
  const std::optional<Tls>& tls() const { return tls_; }
  int fd() const { return fd_.get(); }
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  Listener(UniqueFd fd, Address address, std::optional<Tls> tls, std::unique_ptr<SocketFile> file);
  static Result<Listener> OpenTcp(const Address& address, const ListenOptions& options);

  std::unique_ptr<SocketFile> file_;
  UniqueFd fd_;
  Address address_;
  std::optional<Tls> tls_;
};

// The descriptors that systemd passed to this process (LISTEN_PID, LISTEN_FDS), made close-on-exec; none when there
// are none. Takes the two variables' values, so that the caller decides about its environment.
Result<std::vector<UniqueFd>> InheritedSockets(const char* listen_pid, const char* listen_fds);

}  // namespace cella::http
