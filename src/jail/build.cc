#include "jail/build.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstring>
#include <initializer_list>

#include "jail/kernel_file.h"
#include "jail/messages.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/tree.h"

namespace cella::jail {
namespace {

Failure JoinCgroups(const JailSpec& spec, const BuildFds& fds) {
  // "0" means the writer itself: that skips a lock that moving another process takes (10-15 ms when cold), and the
  // permission was judged when the supervisor opened the file.
  for (uint32_t i = 0; i < spec.cgroup_v1_count; ++i) {
    if (write(fds.cgroup_v1[i], "0", 1) != 1) return Fail(Stage::kJoinCgroup);
  }
  return kOk;
}

// A jail is cloned into its group; without one, this process joins by itself.
Failure JoinCgroupV2(int directory) {
  int procs = openat(directory, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (procs < 0) return Fail(Stage::kJoinCgroup);
  ssize_t n = write(procs, "0", 1);
  int saved = errno;
  close(procs);
  errno = saved;
  return n == 1 ? kOk : Fail(Stage::kJoinCgroup);
}

Failure Confine(const JailSpec& spec) {
  JAIL_TRY(DropCapabilities());
  JAIL_TRY(ForbidNewPrivileges());
  JAIL_TRY(LoadFilter(spec.flags & kStrictMemory ? Filter::kStrictMemory : Filter::kDefault));
  // Both come after the last change of credentials, which resets them. Not dumpable: the guest, who has our user id,
  // can neither read nor trace us.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return Fail(Stage::kCapabilities, "dumpable");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Fail(Stage::kCapabilities, "parent death signal");
  return kOk;
}

struct ReadyState {
  int workspace = -1;
  InitFds kept;
  unsigned landlock_abi = 0;
  bool own_proc = false;
};

Failure OpenEntry(const JailSpec& spec, InitFds* kept) {
  for (const char* path : {"/proc/self/ns/user", "/proc/self/ns/pid", "/proc/self/ns/mnt", "/proc/self/ns/ipc",
                           "/proc/self/ns/uts", "/proc/self/ns/cgroup", "/proc/self/ns/net"}) {
    if (kept->entry_count == kNamespaceCount - 1 && (spec.flags & kHostNetwork)) break;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Fail(Stage::kJoinNamespaces, path);
    kept->entry[kept->entry_count++] = fd;
  }
  if (kept->ruleset >= 0) kept->entry[kept->entry_count++] = kept->ruleset;
  return kOk;
}

Failure SetUpInit(const JailSpec& spec, const BuildFds& fds, ReadyState* state) {
  JAIL_TRY(JoinCgroups(spec, fds));
  // Through the host's /proc, which is still there: after the change of user we may not open our own file any more.
  state->kept.oom_score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  JAIL_TRY(BecomeGuestUser(spec));
  static constinit LateMounts late = {};
  JAIL_TRY(TakeLate(spec, fds, &late));
  JAIL_TRY(MountScratch(spec));
  JAIL_TRY(AttachLate(late));
  JAIL_TRY(MountProc(&state->own_proc));
  // Not in a maker: below a /proc with such a mount the kernel allows its jails none of their own.
  if (state->own_proc) JAIL_TRY(HideKeys());
  JAIL_TRY(MountPts());
  if (!(spec.flags & kHostNetwork)) JAIL_TRY(BringUpLoopback());
  const char* hostname = At(&spec, spec.hostname);
  if (sethostname(hostname, strlen(hostname)) < 0) return Fail(Stage::kHostname);
  // Quotas of this user namespace; only a /proc of our own offers them.
  if (state->own_proc) {
    // Holds even if the filter had a hole.
    JAIL_TRY(WriteKernelFile("/proc/sys/user/max_user_namespaces", "0", Stage::kNamespaceQuota));
    // What the guest uses is also charged to the user who started it, and few are allowed to each.
    JAIL_TRY(WriteKernelFile("/proc/sys/user/max_inotify_instances", "16", Stage::kNamespaceQuota));
    JAIL_TRY(WriteKernelFile("/proc/sys/user/max_inotify_watches", "8192", Stage::kNamespaceQuota));
  }
  state->workspace = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (state->workspace < 0) return Fail(Stage::kScratch, "/workspace");
  JAIL_TRY(OpenLandlockRuleset(spec, &state->kept.ruleset, &state->landlock_abi));
  if ((spec.flags & kSession) && state->own_proc) JAIL_TRY(OpenEntry(spec, &state->kept));
  JAIL_TRY(LimitCoreDumps());
  return Confine(spec);
}

// Everything that the supervisor keeps of this jail.
bool ReportReady(const ReadyState& state) {
  Report report = {};
  report.kind = ReportKind::kReady;
  report.landlock_abi = state.landlock_abi;
  report.own_proc = state.own_proc;
  int fds[kMaxMessageFds];
  int count = 0;
  fds[count++] = state.workspace;
  for (int i = 0; i < state.kept.entry_count; ++i) fds[count++] = state.kept.entry[i];
  return SendReport(state.kept.control, report, fds, count);
}

// Leaves only these open, at known places, and nothing of the launcher's.
Failure KeepOnly(InitFds* fds) {
  int* kept[3 + kEntryCount] = {&fds->control, &fds->ruleset, &fds->oom_score};
  int count = 3;
  for (int i = 0; i < fds->entry_count; ++i) kept[count++] = &fds->entry[i];
  // First out of the way, then into place.
  for (int i = 0; i < count; ++i) {
    if (*kept[i] < 0) continue;
    *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, kControlFd + count);
    if (*kept[i] < 0) return Fail(Stage::kDescriptors);
  }
  int next = kControlFd;
  for (int i = 0; i < count; ++i) {
    if (*kept[i] < 0) continue;
    if (dup3(*kept[i], next, O_CLOEXEC) < 0) return Fail(Stage::kDescriptors);
    *kept[i] = next++;
  }
  return sys::CloseRange(static_cast<unsigned>(next), ~0u, 0) < 0 ? Fail(Stage::kDescriptors) : kOk;
}

[[noreturn]] void InitMain(const JailSpec& spec, const BuildFds& fds, int control, int mapped) {
  (void)signal(SIGCHLD, SIG_DFL);  // a maker ignores it, and then there would be nothing to wait for
  char byte;
  // The launcher writes the id maps; if it dies instead, so do we.
  if (read(mapped, &byte, 1) != 1) _exit(1);
  ReadyState state;
  state.kept.control = control;
  Failure failure = SetUpInit(spec, fds, &state);
  if (!failure) {
    if (!ReportReady(state)) _exit(1);
    failure = KeepOnly(&state.kept);
  }
  if (failure) {
    SendFailure(control, failure);
    _exit(1);
  }
  RunInit(spec, state.kept);
}

}  // namespace

JailSpec* ReceiveSpec(int control, int* fds, BuildFds* build) {
  Request request = {};
  int count = 0;
  if (ReceiveRequest(control, &request, fds, &count) != 1 || request.kind != RequestKind::kBuild || count < 1) {
    return nullptr;
  }
  size_t size = 0;
  auto* spec = static_cast<JailSpec*>(MapBlock(fds[0], sizeof(JailSpec), &size));
  if (spec == nullptr || spec->magic != kSpecMagic || spec->size != size) return nullptr;
  if (spec->mount_count > kMaxMounts || spec->link_count > kMaxLinks || spec->file_count > kMaxFiles) return nullptr;
  if (count != 1 + static_cast<int>(spec->cgroup_v1_count + spec->cgroup_v2)) return nullptr;
  if (spec->cgroup_v1_count > 0) build->cgroup_v1 = fds + 1;
  if (spec->cgroup_v2 != 0) build->cgroup_v2 = fds[1 + spec->cgroup_v1_count];
  return spec;
}

unsigned long NamespaceFlags(const JailSpec& spec) {
  unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  if (!(spec.flags & kHostNetwork)) flags |= CLONE_NEWNET;
  return flags;
}

Failure CloneInit(const JailSpec& spec, const BuildFds& fds, int control, Parent parent, int* init_pidfd) {
  int mapped[2];
  if (pipe2(mapped, O_CLOEXEC) < 0) return Fail(Stage::kClone, "pipe");
  clone_args args = {};
  args.flags = NamespaceFlags(spec) | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(init_pidfd);
  if (parent == Parent::kOurs) {
    args.flags |= CLONE_PARENT;  // and no signal of its own: a sibling has ours
  } else {
    // Only a child that would say SIGCHLD is taken away by the kernel where that is ignored.
    args.exit_signal = SIGCHLD;
  }
  if (spec.cgroup_v2 != 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(fds.cgroup_v2);
  }
  long pid = sys::Clone3(&args);
  if (pid < 0) return Fail(Stage::kClone);
  if (pid == 0) {
    close(mapped[1]);
    InitMain(spec, fds, control, mapped[0]);
  }
  close(mapped[0]);
  Failure failure = MapIds(static_cast<int>(pid), spec);
  // The maps are the child's permission to go on; without them it reads an end of file and exits.
  if (!failure && write(mapped[1], "m", 1) != 1) failure = Fail(Stage::kMapIds);
  close(mapped[1]);
  return failure;
}

Failure BuildJail(const JailSpec& spec, const BuildFds& fds, int control, int* init_pidfd) {
  if (spec.flags & kDropToUid) JAIL_TRY(DropToUid(spec));
  JAIL_TRY(EnterOwnMounts(spec));
  JAIL_TRY(BuildTree(spec));
  // The supervisor waits for init, and its death takes init along, so that nothing keeps this process (whose mounts
  // take a moment to go away) alive.
  return CloneInit(spec, fds, control, Parent::kOurs, init_pidfd);
}

Failure HandOverSources(const JailSpec& spec, int control) {
  if (spec.flags & kDropToUid) JAIL_TRY(DropToUid(spec));
  // Cloning a mount changes none of the host's; only the right to do it must come from somewhere.
  if (!(spec.flags & kPrivileged)) JAIL_TRY(EnterOwnMounts(spec));
  int fds[kMaxMounts];
  JAIL_TRY(OpenSources(spec, fds));
  Report report = {};
  report.kind = ReportKind::kReady;
  return SendReport(control, report, fds, static_cast<int>(spec.mount_count)) ? kOk : Fail(Stage::kOpenSource);
}

void RunUnconfined(const JailSpec& spec, const BuildFds& fds, int control, const Interpreter* interpreter) {
  InitFds kept = {control, -1, open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
  kept.interpreter = interpreter;
  Failure failure = JoinCgroups(spec, fds);
  if (!failure && spec.cgroup_v2 != 0) failure = JoinCgroupV2(fds.cgroup_v2);
  // Orphans of the guest become our children instead of the system's, so that none escapes by a double fork.
  if (!failure && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) failure = Fail(Stage::kFork, "subreaper");
  if (!failure) failure = LimitCoreDumps();
  if (!failure) failure = ForbidNewPrivileges();
  if (!failure) failure = KeepOnly(&kept);
  if (failure) {
    SendFailure(control, failure);
    _exit(1);
  }
  Report report = {};
  report.kind = ReportKind::kReady;
  SendReport(kept.control, report, nullptr, 0);
  RunInit(spec, kept);
}

}  // namespace cella::jail
