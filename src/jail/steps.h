// The steps that turn a JailSpec into a confined process, in the order in which they run. The order is the security
// argument:
//
//   launcher   EnterOwnMounts       user (ordinary user only) and mount namespace
//              BuildTree            sources are opened before the tree covers anything; then pivot_root, read-only
//              clone3               init, in all seven namespaces at once; MapIds from outside
//   init       JoinCgroups          before anything is allocated, so that everything is charged
//              BecomeGuestUser      before mounts, so that the tmpfs belongs to the guest
//              TakeLate, MountScratch, AttachLate, MountProc, MountPts, BringUpLoopback
//                                   need the capabilities of the new user namespace
//              OpenLandlockRuleset  needs the mounts; entered by each guest
//              DropCapabilities, ForbidNewPrivileges, LoadFilter
//                                   forbid all of the above
//   guest      EnterGuest           session, descriptors, limits, Landlock, signals; then exec
//
// A maker (maker.h) builds the tree once and repeats what follows it; what of the host belongs to one jail alone comes
// to it as detached mounts (HandOverSources in build.h), which AttachGiven puts into place before the clone. A guest
// that is forked from a zygote enters its jail from outside, after init: see fork_guest.h.
//
// Freestanding: no exceptions, no allocation, no locks. Every step may run between fork and exec.
#pragma once

#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

// The namespaces of a jail; kHostNetwork removes the network one.
unsigned long NamespaceFlags(const JailSpec& spec);

// tree.h has the steps of the tree. private_mounts.cc:
Failure MountScratch(const JailSpec& spec);
Failure MountProc(bool* own_proc);
Failure HideKeys();
Failure MountOwnProcAlone();  // of a zygote, over the maker's: it shows no other process
Failure MountPts();

// idmapped_mount.cc: a user namespace in which `owner` is shown as `shown`; returns its descriptor in *fd.
Failure OpenIdmap(uint32_t owner_uid, uint32_t owner_gid, uint32_t shown_uid, uint32_t shown_gid, int* fd);

// credentials.cc
Failure DropToUid(const JailSpec& spec);
Failure MapIds(int pid, const JailSpec& spec);
Failure BecomeGuestUser(const JailSpec& spec);
Failure BecomeGuest();  // the same in a namespace that init has set up
// A maker is root of a user namespace of its own, and outside it the unprivileged host_uid.
Failure MapMakerIds(int pid, const JailSpec& spec);
Failure BecomeMakerUser(const JailSpec& spec);
Failure DropCapabilities();
Failure ForbidNewPrivileges();

// network.cc
Failure BringUpLoopback();

// landlock.cc: *abi is 0 and *ruleset -1 where the kernel has no Landlock.
Failure OpenLandlockRuleset(const JailSpec& spec, int* ruleset, unsigned* abi);
Failure EnterLandlock(int ruleset);
// Of a zygote and all that is forked from it: beside what its jail allows each guest.
Failure EnterZygoteLandlock();
int LandlockAbi();

// seccomp.cc
enum class Filter { kDefault, kStrictMemory, kZygote };
Failure LoadFilter(Filter filter);

// guest.cc. One byte, not zero: zero still starts a core dump handler on the host where core_pattern is a pipe.
// Inherited by everything inside, and before the filter, which keeps it so.
Failure LimitCoreDumps();
Failure SetProcessLimits(const ProcessLimits& limits);
struct GuestFds {
  const int* stdio;
  int session = -1;  // becomes kSessionFd; -1: the program has none
};
// Of an init that is a copy of an interpreter (launcher/fork_tree.cc), whose programs are forks of it. The first three
// go around a fork, as Python wants it; `become` is the program, and its result the exit code.
struct Interpreter {
  void (*before_fork)();
  void (*after_fork_parent)();
  void (*after_fork_child)();
  int (*become)(char* const* argv, char* const* envp);
};
// The last steps of a child of init; returns only on failure. With an interpreter nothing is executed: the child
// becomes its program, and ends with it.
Failure EnterGuest(const ExecSpec& exec, char* const* argv, char* const* envp, const GuestFds& fds, int ruleset,
                   int status, const Interpreter* interpreter);

// init.cc
struct InitFds {
  int control = -1;
  int ruleset = -1;    // -1: no Landlock
  int oom_score = -1;  // its own oom_score_adj, opened while that was allowed; -1: no /proc
  // By these a zygote finds the way in; opened while a process may still open its own. Of a session with a /proc of its
  // own: the namespaces in the order of ForkFd, then the ruleset if there is one.
  int entry[kEntryCount] = {};
  int entry_count = 0;
  const Interpreter* interpreter = nullptr;  // whose copy it is; null: of none
};
[[noreturn]] void RunInit(const JailSpec& spec, const InitFds& fds);

}  // namespace cella::jail
