// The composition root of `cella serve`: puts the parts of a server together, runs it until it is told to stop, and
// takes it apart in order.
#pragma once

#include <unistd.h>

#include <optional>

#include "async/task.h"
#include "base/result.h"
#include "server/config.h"

namespace cella::server {

struct ServeOptions {
  Config config;                   // completed and checked
  bool token_file_named = false;   // the operator named it: then it has to exist
  std::optional<pid_t> exit_with;  // a process whose server this is: when that ends, so does this
  // An inherited descriptor with the lines of a token file, instead of the file. Then every request needs a token, over
  // Unix sockets too. It is read to its end and closed.
  std::optional<int> token_fd;
  int log_fd = STDERR_FILENO;  // where the log goes
};

// Returns after a stop signal and the drain that follows it, or says why it cannot serve.
async::Task<Status> Serve(async::Loop& loop, ServeOptions options);

}  // namespace cella::server
