// Where a ZeroMQ peer listens: a socket file in a directory that is held open, or a port of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::zmtp {

struct Endpoint {
  // ipc: the file's name in the directory, which a guest may write into. A symbolic link there is never followed.
  std::shared_ptr<const UniqueFd> directory;
  std::string name;
  // tcp, without a directory: a port of 127.0.0.1.
  uint16_t port = 0;
};

// For messages.
std::string ToString(const Endpoint& endpoint);

// A connected stream socket. kClosed when cancelled.
async::Task<Result<UniqueFd>> Connect(async::Loop& loop, const Endpoint& endpoint);

}  // namespace cella::zmtp
