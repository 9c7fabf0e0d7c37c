// A runner in a jail, and a checkpoint of one: both are processes that wait at the other end of a socket.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "executor/sandbox/zygote.h"
#include "language/runner_channel.h"

namespace cella::executor {

struct Runner {
  language::RunnerChannel channel;
  UniqueFd pidfd;                  // of one that was forked: readable when it has ended
  std::shared_ptr<Zygote> zygote;  // whose child it is; null: it is init's, which reports its end
  uint32_t tag = 0;                // in those reports
  int group = 0;                   // its process group as init numbers it; 0: not asked yet
  uint64_t runs = 0;               // that it has finished: zero means that there is no state to lose

  explicit operator bool() const { return static_cast<bool>(channel); }
};

struct RunnerCopy {
  language::RunnerChannel channel;
  UniqueFd pidfd;
};

}  // namespace cella::executor
