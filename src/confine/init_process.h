// The first processes of a jail, a maker, a helper or an unconfined tree, and the socket to them: the launcher, and
// what it started as init. When this goes away, so does everything inside. Lives on the loop.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "jail/protocol.h"
#include "os/process.h"

namespace cella::confine {

class InitProcess {
 public:
  // No launcher: the other end is the init that a maker started, or (with `destroy`, which ends it from outside) the
  // one of another place, as a container.
  InitProcess(async::Loop& loop, std::optional<os::Process> launcher, UniqueFd control,
              std::function<void()> destroy = {});
  InitProcess(InitProcess&&) = default;
  // Kills what is left and reaps it: for the way out of an error; the ordinary way is End.
  ~InitProcess();

  async::Loop& loop() { return *loop_; }
  async::Descriptor& control() { return control_; }
  Status Send(const jail::Request& request, std::span<const int> fds);

  struct BuildReport {
    jail::Report report = {};
    std::vector<UniqueFd> fds;
  };
  // While something is built: the next report, its failure as an Error.
  async::Task<Result<BuildReport>> ReadBuildReport();
  // The descriptors and the report that come when it is built. `has_init`: the launcher has started another process,
  // without whose pidfd it could not be killed.
  async::Task<Result<BuildReport>> WaitBuilt(bool has_init);

  // The launcher leaves when it has built what it was for: takes note of it.
  void ReapLauncher();
  // Of the first process; -1: it is elsewhere, or gone.
  int pidfd() const { return init_ ? init_->pidfd() : launcher_ ? launcher_->pidfd() : -1; }
  bool ended() const;  // init is gone, and with it all others
  // The launcher is ready, and the root of an unconfined tree.
  void BecomeRootOfTree() { is_root_of_tree_ = launcher_.has_value(); }
  // The hard way: from outside, and no report follows. The root of an unconfined tree is made to end its tree instead:
  // without it the kernel would give the processes of the tree to the system.
  void Kill();

  // Closes the socket and waits until the last process is gone, for some seconds: one that the kernel does not let die
  // is left behind, in an unconfined tree with its root, which goes on killing.
  async::Task<void> End();

 private:
  async::Task<bool> WaitForEnd(const os::Process& process, async::TimePoint deadline);
  void MakeRootEndItsTree();

  async::Loop* loop_;
  std::optional<os::Process> launcher_;  // unconfined it is init itself; a maker's jails have none
  async::Descriptor control_;
  std::optional<os::Process> init_;
  bool is_root_of_tree_ = false;
  std::function<void()> destroy_;
};

}  // namespace cella::confine
