// The supervisor's side of one jail (or unconfined tree): has it built, starts programs in it, and ends it. Also of a
// maker, which is built the same way and then makes jails. Lives on the loop. When it goes away, so does everything
// inside.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "confine/limits.h"
#include "confine/spec_builder.h"
#include "jail/protocol.h"
#include "os/cgroup.h"
#include "os/process.h"

namespace cella::confine {

class Launch {
 public:
  // Starts the launcher, which waits for its spec: its start overlaps with whatever the caller prepares meanwhile.
  static Result<Launch> Start(async::Loop& loop, const std::string& launcher);
  // The init of another place (a container) behind this socket, ready for programs; `destroy` ends that place from
  // outside.
  static Launch Adopt(async::Loop& loop, UniqueFd control, std::function<void()> destroy);
  // One more jail of a maker. `cgroups` are descriptors that its init joins by writing into them, `mounts` are what the
  // spec wants.
  Result<Launch> MakeEmptyJail(const jail::EmptyJailSpec& jail, std::span<const int> cgroups,
                               std::span<const UniqueFd> mounts);
  // A zygote beside the jails of a maker; the socket is our end of what it finds as jail::kControlFd. `cgroups` as
  // above.
  Result<UniqueFd> Spawn(const ExecRequest& request, std::span<const int> cgroups);
  Launch(Launch&&) = default;
  // Kills what is left and reaps it: for the way out of an error; the ordinary way is End.
  ~Launch();

  // Sends the spec. `cgroup` may be empty.
  Status Build(JailSpecBuilder& builder, const os::Cgroup& cgroup);

  struct Ready {
    UniqueFd workspace;           // empty when unconfined
    std::vector<UniqueFd> entry;  // of a session's jail: what a zygote needs to fork into it (jail::ReportKind::kLent)
    int landlock_abi = 0;
    bool own_proc = false;
  };
  // Unconfined, the launcher is its own init.
  async::Task<Result<Ready>> WaitReady(Confinement confinement);
  // Of a launcher that builds nothing (jail::kOpenSources).
  async::Task<Result<std::vector<UniqueFd>>> WaitSources();

  // Starts a program; the descriptors become its 0, 1, 2, and `session`, if there is one, its jail::kSessionFd. The
  // number is in the reports about it.
  Result<uint32_t> Exec(const ExecRequest& request, std::span<const int, 3> stdio, int session = -1);

  // True when TakeReports has something to read; false when cancelled.
  async::Task<bool> Readable() { return control_.Readable(); }

  // The only reader of init's reports: takes every message that is there and files it by kind and tag, for the
  // functions below. A message that makes no sense is dropped; the end of the stream is gone().
  void TakeReports();
  // The jail has ended.
  bool gone() const { return gone_; }
  // Whether the program with this tag was started: its number inside, or why not. Absent: not known yet.
  std::optional<Result<int>> TakeStart(uint32_t tag);
  std::optional<jail::Report> TakeEnd(uint32_t tag);
  bool HasEnd(uint32_t tag) const { return ended_.contains(tag); }
  // Everything that was asked before the echo with this tag has been done.
  bool WasEchoed(uint32_t tag) const { return echoed_ >= tag; }
  // Why init has killed the run that is on.
  jail::KillReason TakeBreach() { return std::exchange(breach_, jail::KillReason::kNone); }
  bool TakeKilled() { return std::exchange(killed_, false); }
  // An Error: the descriptors were lost on the way.
  std::optional<Result<std::vector<UniqueFd>>> TakeLent();

  // To the process group, or to every process inside.
  void Signal(int signal, int group = 0);
  void Nudge(int group);          // its leader, out of a system call
  void KillGuest(int group = 0);  // kExited still follows
  uint32_t Adopt(int pid);   // init's child from now on counts as a program; the number is in the report of its end
  void WatchRun(int group);  // a run of a session begins, or (0) has ended
  void AskForEntry();        // kLent follows
  uint32_t AskForEcho();     // kEchoed follows, with this tag: the signals from before were sent
  void KillInit();           // the hard way: from outside, and no report follows

  // Of its first process; -1: it is elsewhere, or gone.
  int root_pidfd() const { return init_ ? init_->pidfd() : launcher_ ? launcher_->pidfd() : -1; }
  int control_fd() { return control_.fd(); }
  // The launcher leaves when it has built what it was for: takes note of it.
  void ReapLauncher();
  bool ended() const;  // its first process is gone, and with it all others

  // The call socket of a jail (jail::kCallSocket), for one task at a time. An Error: the jail ended, or init is held
  // up.
  async::Task<Result<UniqueFd>> Listen();

  // Closes the jail and waits until its last process is gone, for some seconds: one that the kernel does not let die is
  // left behind.
  async::Task<void> End();

 private:
  Launch(async::Loop& loop, std::optional<os::Process> launcher, UniqueFd control);
  void Send(jail::RequestKind kind, int signal, int group, uint32_t tag = 0);
  struct BuildReport {
    jail::Report report = {};
    std::vector<UniqueFd> fds;
  };
  async::Task<bool> WaitForEnd(const os::Process& process, async::TimePoint deadline);
  // While something is built: the next report, its failure as an Error.
  async::Task<Result<BuildReport>> ReadBuildReport();

  async::Loop* loop_;
  std::optional<os::Process> launcher_;  // unconfined it is init itself; a maker's jails have none
  async::Descriptor control_;
  uint32_t last_tag_ = 0;
  std::map<uint32_t, jail::Report> started_;  // or failed to; by tag
  std::map<uint32_t, jail::Report> ended_;
  std::optional<Result<std::vector<UniqueFd>>> lent_;
  std::optional<Result<UniqueFd>> listener_;
  uint32_t echoed_ = 0;
  jail::KillReason breach_ = jail::KillReason::kNone;
  bool killed_ = false;
  bool gone_ = false;
  std::optional<os::Process> init_;
  std::function<void()> destroy_;  // of an adopted one
};

}  // namespace cella::confine
