// The supervisor's side of a maker: a process in a root tree of its own that makes empty jails with that tree, and
// zygotes beside them. Lives on the loop.
#pragma once

#include <span>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "confine/init_process.h"
#include "confine/jail.h"
#include "confine/spec_builder.h"
#include "jail/protocol.h"

namespace cella::confine {

class Maker {
 public:
  // Of one that is being built: WaitReady comes first.
  explicit Maker(InitProcess init) : init_(std::move(init)) {}
  async::Task<Status> WaitReady();

  // One more jail. `cgroups` are descriptors that its init joins by writing into them, `mounts` are what the spec
  // wants.
  Result<Jail> MakeEmptyJail(const jail::EmptyJailSpec& jail, std::span<const int> cgroups,
                             std::span<const UniqueFd> mounts);
  // A zygote beside the jails; the socket is our end of what it finds as jail::kControlFd. `cgroups` as above.
  Result<UniqueFd> Spawn(const ExecRequest& request, std::span<const int> cgroups);

  bool ended() const { return init_.ended(); }

 private:
  InitProcess init_;
};

}  // namespace cella::confine
