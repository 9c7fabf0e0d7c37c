#include "executor/sandbox/runner.h"

#include <poll.h>

#include "os/pidfd.h"

namespace cella::executor {

int Runner::Group() {
  if (group == 0 && pidfd) {
    if (auto pids = os::NamespacePids(pidfd.get())) group = pids->back();
  }
  return group;
}

bool Runner::IsConnected() const {
  pollfd socket = {channel.fd(), POLLRDHUP, 0};
  return channel.fd() >= 0 && (poll(&socket, 1, 0) == 0 || (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0);
}

}  // namespace cella::executor
