// The supervisor's side of one jail, or of an unconfined tree: starts programs in it, takes reports about them, and
// ends it. Lives on the loop. When it goes away, so does everything inside.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "confine/init_process.h"
#include "confine/spec_builder.h"
#include "jail/protocol.h"

namespace cella::confine {

class Jail {
 public:
  // Of an init that is being started: WaitReady comes first. Unconfined, the launcher is its own init.
  Jail(InitProcess init, bool has_init) : init_(std::move(init)), has_init_(has_init) {}
  // The init of another place (a container) behind this socket, ready for programs; `destroy` ends that place from
  // outside.
  static Jail Adopt(async::Loop& loop, UniqueFd control, std::function<void()> destroy);

  struct Ready {
    UniqueFd workspace;           // empty when unconfined
    std::vector<UniqueFd> entry;  // of a session's jail: what a zygote needs to fork into it (jail::ReportKind::kLent)
    int landlock_abi = 0;
    bool own_proc = false;
  };
  async::Task<Result<Ready>> WaitReady();

  // Starts a program; the descriptors become its 0, 1, 2, and `session`, if there is one, its jail::kSessionFd. The
  // number is in the reports about it.
  Result<uint32_t> Exec(const ExecRequest& request, std::span<const int, 3> stdio, int session = -1);

  // True when TakeReports has something to read; false when cancelled.
  async::Task<bool> Readable() { return init_.control().Readable(); }

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
  uint32_t AdoptChild(int pid);  // init's child counts as a program from now on; the number is in the report of its end
  void WatchRun(int group);      // a run of a session begins, or (0) has ended
  void AskForEntry();            // kLent follows
  uint32_t AskForEcho();         // kEchoed follows, with this tag: the signals from before were sent
  void KillInit() { init_.Kill(); }

  // Of its first process; -1: it is elsewhere, or gone.
  int root_pidfd() const { return init_.pidfd(); }
  int control_fd() { return init_.control().fd(); }
  bool ended() const { return init_.ended(); }

  // The call socket of a jail (jail::kCallSocket), for one task at a time. An Error: the jail ended, or init is held
  // up.
  async::Task<Result<UniqueFd>> Listen();

  // Closes the jail and waits until its last process is gone, as InitProcess::End.
  async::Task<void> End() { return init_.End(); }

 private:
  void Send(jail::RequestKind kind, int signal, int group, uint32_t tag = 0);

  InitProcess init_;
  bool has_init_;
  uint32_t last_tag_ = 0;
  std::map<uint32_t, jail::Report> started_;  // or failed to; by tag
  std::map<uint32_t, jail::Report> ended_;
  std::optional<Result<std::vector<UniqueFd>>> lent_;
  std::optional<Result<UniqueFd>> listener_;
  uint32_t echoed_ = 0;
  jail::KillReason breach_ = jail::KillReason::kNone;
  bool killed_ = false;
  bool gone_ = false;
};

}  // namespace cella::confine
