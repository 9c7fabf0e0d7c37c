// The supervisor's side of one cella-launch: builds a jail (or an unconfined tree), starts programs in it, and ends it.
// Lives on the loop. When it goes away, so does everything inside.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "async/descriptor.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "executor/limits.h"
#include "executor/spec_builder.h"
#include "jail/protocol.h"
#include "os/cgroup.h"
#include "os/process.h"

namespace cella::executor {

class Launch {
 public:
  // Starts the launcher, which waits for its spec: its start overlaps with whatever the caller prepares meanwhile.
  static Result<Launch> Start(async::Loop& loop, const std::string& launcher);
  Launch(Launch&&) = default;
  // Kills what is left and reaps it: for the way out of an error; the ordinary way is End.
  ~Launch();

  // Sends the spec. `cgroup` may be empty.
  Status Build(JailSpecBuilder& builder, const os::Cgroup& cgroup);

  struct Ready {
    UniqueFd workspace;  // empty when unconfined
    int landlock_abi = 0;
    bool own_proc = false;
  };
  // Unconfined, the launcher is its own init.
  async::Task<Result<Ready>> WaitReady(Confinement confinement);

  // Starts a program; the descriptors become its 0, 1, 2.
  Status Exec(const ExecRequest& request, std::span<const int, 3> stdio);

  // True when Receive has something; false when cancelled. Apart from Receive, so that a wait that loses a race against
  // a deadline cannot take a report with it.
  async::Task<bool> Readable() { return control_.Readable(); }

  struct Received {
    bool gone = false;                   // the jail has ended
    std::optional<jail::Report> report;  // absent: nothing of interest came
  };
  // Takes one message; kFailed comes as an Error.
  Result<Received> Receive();

  void Signal(int signal);
  void KillGuest();  // kExited still follows
  void KillInit();   // the hard way: from outside, and no report follows

  // Closes the jail and waits until its last process is gone.
  async::Task<void> End();

 private:
  Launch(async::Loop& loop, os::Process launcher, UniqueFd control);
  void Send(jail::RequestKind kind, int signal);

  async::Loop* loop_;
  os::Process launcher_;  // unconfined it is init itself
  async::Descriptor control_;
  std::optional<os::Process> init_;
};

}  // namespace cella::executor
