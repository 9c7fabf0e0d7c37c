// The supervisor's side of one jail (or unconfined tree): has it built, starts programs in it, and ends it. Also of a
// maker, which is built the same way and then makes jails. Lives on the loop. When it goes away, so does everything
// inside.
#pragma once

#include <map>
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
  // One more jail of a maker. `cgroups` are descriptors that its init joins by writing into them, `mounts` are what the
  // spec wants.
  Result<Launch> MakeShell(const jail::ShellSpec& shell, std::span<const int> cgroups,
                           std::span<const UniqueFd> mounts);
  // A program beside the jails of a maker; the socket is our end of what it finds as jail::kControlFd.
  Result<UniqueFd> Spawn(const ExecRequest& request);
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

  // True when Receive has something; false when cancelled. Apart from Receive, so that a wait that loses a race against
  // a deadline cannot take a report with it.
  async::Task<bool> Readable() { return control_.Readable(); }

  struct Received {
    bool gone = false;                   // the jail has ended
    std::optional<jail::Report> report;  // absent: nothing of interest came
    std::vector<UniqueFd> fds;           // beside it
  };
  // Takes one message; kFailed comes as an Error.
  Result<Received> Receive();

  // Of the process group, or of everybody inside.
  void Signal(int signal, int group = 0);
  void Nudge(int group);          // its leader, out of a system call
  void KillGuest(int group = 0);  // kExited still follows
  uint32_t Adopt(int pid);   // init's child from now on counts as a program; the number is in the report of its end
  void WatchRun(int group);  // a run of a session begins, or (0) has ended
  void AskForEntry();        // kLent follows
  uint32_t AskForEcho();     // kEchoed follows, with this tag: the signals from before were sent
  void KillInit();           // the hard way: from outside, and no report follows

  int control_fd() { return control_.fd(); }
  // The launcher leaves when it has built what it was for: takes note of it.
  void ReapLauncher();
  bool ended() const;  // its first process is gone, and with it all others

  // The end of a program that somebody else will ask for.
  void KeepEnd(const jail::Report& report);
  std::optional<jail::Report> TakeEnd(uint32_t tag);

  // Closes the jail and waits until its last process is gone.
  async::Task<void> End();

 private:
  Launch(async::Loop& loop, std::optional<os::Process> launcher, UniqueFd control);
  void Send(jail::RequestKind kind, int signal, int group, uint32_t tag = 0);
  struct Told {
    jail::Report report = {};
    std::vector<UniqueFd> fds;
  };
  // While something is built: the next report, its failure as an Error.
  async::Task<Result<Told>> NextOfBuild();

  async::Loop* loop_;
  std::optional<os::Process> launcher_;  // unconfined it is init itself; a maker's jails have none
  async::Descriptor control_;
  uint32_t last_tag_ = 0;
  std::map<uint32_t, jail::Report> ended_;
  std::optional<os::Process> init_;
};

}  // namespace cella::executor
