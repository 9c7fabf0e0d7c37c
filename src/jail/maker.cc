#include "jail/maker.h"

#include <sched.h>
#include <sys/prctl.h>

#include "jail/build.h"
#include "jail/exec_block.h"
#include "jail/messages.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/tree.h"

namespace cella::jail {
namespace {

class Maker {
 public:
  Maker(JailSpec* spec, int control) : spec_(spec), control_(control) {}

  [[noreturn]] void Run() {
    for (;;) {
      Request request = {};
      int fds[kMaxMessageFds];
      int count = 0;
      // The supervisor is gone, and with us goes everything here.
      if (ReceiveRequest(control_, &request, fds, &count) <= 0) _exit(0);
      if (request.kind == RequestKind::kEmptyJail && count >= 1) {
        if (Failure failure = MakeEmptyJail(request.jail, fds, count)) SendFailure(fds[0], failure);
      } else if (request.kind == RequestKind::kSpawn && count >= 2) {
        if (Failure failure = Spawn(fds, count)) SendFailure(fds[1], failure);
      }
      for (int i = 0; i < count; ++i) close(fds[i]);
    }
  }

 private:
  Failure MakeEmptyJail(const EmptyJailSpec& jail, const int* fds, int count) {
    // No mount point stays empty, and nothing is left over.
    uint32_t wanted = jail.has_workspace ? 1 : 0;
    for (uint32_t i = 0; i < spec_->mount_count; ++i) wanted += spec_->mounts[i].flags & kMountPoint ? 1 : 0;
    errno = EPROTO;
    if (jail.mount_count != wanted || static_cast<uint32_t>(count) != 1 + jail.cgroup_count + wanted) {
      return Fail(Stage::kRequest, "jail");
    }
    spec_->flags = jail.has_workspace ? spec_->flags & ~uint32_t{kPrivateWorkspace} : spec_->flags | kPrivateWorkspace;
    spec_->cgroup_v1_count = jail.cgroup_count;
    spec_->scratch_bytes = jail.scratch_bytes;
    spec_->scratch_inodes = jail.scratch_inodes;
    spec_->watch = {jail.watch_memory_bytes, jail.watch_cpu_ns, jail.watch_processes};
    BuildFds given;
    given.cgroup_v1 = fds + 1;
    given.mounts = given.cgroup_v1 + jail.cgroup_count;
    given.mount_count = jail.mount_count;
    if (jail.mount_count == 0) return Clone(given, fds[0], Parent::kUs);
    // In a process of its own, whose mounts are the jail's alone.
    pid_t pid = fork();
    if (pid < 0) return Fail(Stage::kFork);
    if (pid > 0) return kOk;
    Failure failure = AttachGiven(*spec_, &given);
    if (!failure) failure = Clone(given, fds[0], Parent::kOurs);
    if (failure) SendFailure(fds[0], failure);
    _exit(0);
  }

  Failure Clone(const BuildFds& given, int control, Parent parent) const {
    int init = -1;
    JAIL_TRY(CloneInit(*spec_, given, control, parent, &init));
    Report report = {};
    report.kind = ReportKind::kCreated;
    SendReport(control, report, &init, 1);
    close(init);
    return kOk;
  }

  // A zygote: a program of the tree, confined. What goes wrong is reported on its own control socket.
  Failure Spawn(const int* fds, int count) const {
    const int control = fds[1];
    ExecBlock exec;
    JAIL_TRY(exec.Map(fds[0]));
    int reported[2];
    if (pipe2(reported, O_CLOEXEC) < 0) return Fail(Stage::kFork, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
      close(reported[1]);
      // The supervisor believes the first report alone that names a process, so the zygote must not send one before.
      char byte;
      if (read(reported[0], &byte, 1) != 1) _exit(1);
      SendFailure(control, Become(exec, control, fds + 2, count - 2));
      _exit(127);
    }
    close(reported[0]);
    Failure failure = pid < 0 ? Fail(Stage::kFork) : ReportZygote(pid, control);
    if (!failure && write(reported[1], "r", 1) != 1) failure = Fail(Stage::kFork, "pipe");
    close(reported[1]);
    return failure;
  }

  static Failure ReportZygote(pid_t pid, int control) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) return Fail(Stage::kFork, "pidfd");
    Report report = {};
    report.kind = ReportKind::kCreated;
    const bool sent = SendReport(control, report, &pidfd, 1);
    close(pidfd);
    return sent ? kOk : Fail(Stage::kFork, "report");
  }

  Failure Become(const ExecBlock& exec, int control, const int* cgroups, int cgroup_count) const {
    (void)signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < cgroup_count; ++i) {
      if (write(cgroups[i], "0", 1) != 1) return Fail(Stage::kJoinCgroup);
    }
    if (unshare(CLONE_NEWNS) < 0) return Fail(Stage::kMountNamespace);
    if (setsid() < 0) return Fail(Stage::kDescriptors, "session");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Fail(Stage::kDescriptors, "parent death signal");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return Fail(Stage::kDescriptors, "/dev/null");
    int socket = fcntl(control, F_DUPFD_CLOEXEC, kControlFd + 1);
    if (socket < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(socket, kControlFd) < 0) {
      return Fail(Stage::kDescriptors);
    }
    if (sys::CloseRange(kControlFd + 1, ~0u, CLOSE_RANGE_CLOEXEC) < 0) return Fail(Stage::kDescriptors);
    if (chdir("/") < 0) return Fail(Stage::kWorkingDirectory, "/");
    JAIL_TRY(MountOwnProcAlone());
    JAIL_TRY(SetProcessLimits(exec.spec().limits));
    // As the maker's user it owns the user namespaces of the jails, and needs no capability of its own to have a
    // newborn enter one: see fork_guest.h.
    JAIL_TRY(DropCapabilities());
    JAIL_TRY(EnterZygoteLandlock());
    JAIL_TRY(LoadFilter(Filter::kZygote));
    const char* program = At(&exec.spec(), exec.spec().program);
    execve(program, exec.argv(), exec.envp());
    return Fail(Stage::kExec, program);
  }

  JailSpec* spec_;
  int control_;
};

Failure SetUpMaker(const JailSpec& spec) {
  JAIL_TRY(BecomeMakerUser(spec));
  bool own_proc = false;
  JAIL_TRY(MountProc(&own_proc));
  errno = ENOTSUP;
  if (!own_proc) return Fail(Stage::kProc, "/proc");
  JAIL_TRY(LimitCoreDumps());
  JAIL_TRY(ForbidNewPrivileges());
  // After the last change of credentials, which resets it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Fail(Stage::kFork, "parent death signal");
  return kOk;
}

[[noreturn]] void MakerMain(JailSpec* spec, int control, int mapped) {
  char byte;
  if (read(mapped, &byte, 1) != 1) _exit(1);
  close(mapped);
  if (Failure failure = SetUpMaker(*spec)) {
    SendFailure(control, failure);
    _exit(1);
  }
  // From here on our jails' ids are those of this namespace.
  spec->flags &= ~uint32_t{kPrivileged};
  // The supervisor does not ask how an init or a zygote ended.
  (void)signal(SIGCHLD, SIG_IGN);
  Report report = {};
  report.kind = ReportKind::kReady;
  report.landlock_abi = static_cast<uint32_t>(LandlockAbi());
  report.own_proc = 1;
  SendReport(control, report, nullptr, 0);
  Maker(spec, control).Run();
}

}  // namespace

Failure BuildMaker(JailSpec* spec, int control, int* pidfd) {
  if (spec->flags & kDropToUid) JAIL_TRY(DropToUid(*spec));
  JAIL_TRY(EnterOwnMounts(*spec));
  JAIL_TRY(BuildTree(*spec));
  int mapped[2];
  if (pipe2(mapped, O_CLOEXEC) < 0) return Fail(Stage::kClone, "pipe");
  clone_args args = {};
  args.flags = NamespaceFlags(*spec) | CLONE_PIDFD | CLONE_PARENT;
  args.pidfd = reinterpret_cast<uint64_t>(pidfd);
  long pid = sys::Clone3(&args);
  if (pid < 0) return Fail(Stage::kClone);
  if (pid == 0) {
    close(mapped[1]);
    MakerMain(spec, control, mapped[0]);
  }
  close(mapped[0]);
  Failure failure = MapMakerIds(static_cast<int>(pid), *spec);
  if (!failure && write(mapped[1], "m", 1) != 1) failure = Fail(Stage::kMapIds);
  close(mapped[1]);
  return failure;
}

}  // namespace cella::jail
