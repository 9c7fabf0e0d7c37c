#include "jail/fork_guest.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

#include "jail/kernel_file.h"
#include "jail/spec.h"
#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
namespace {

// Out of the way of what programs do to low descriptors, os.closerange(3, 256) say.
constexpr int kHighFd = 500;

constexpr int kUserNamespace = kForkFirstNamespace;
constexpr int kPidNamespace = kForkFirstNamespace + 1;

Failure JoinCgroups(const int* fds, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (write(fds[i], "0", 1) != 1) return Fail(Stage::kJoinCgroup);
  }
  return kOk;
}

Failure JoinNamespaces(const ForkSpec& spec, const int* fds) {
  // The newborn was born into the user and the pid namespace.
  for (uint32_t i = 2; i < spec.namespace_count; ++i) {
    if (setns(fds[kForkFirstNamespace + i], 0) < 0) return Fail(Stage::kJoinNamespaces);
  }
  return kOk;
}

Failure SetDescriptors(const ForkSpec& spec, const int* fds, int* session) {
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds[kForkStdin + i], i) < 0) return Fail(Stage::kDescriptors);
  }
  uint64_t limit = spec.limits.open_files == 0 ? 1024 : spec.limits.open_files;
  int wanted = static_cast<int>(std::min<uint64_t>(kHighFd, limit / 2));
  *session = fcntl(fds[kForkSession], F_DUPFD_CLOEXEC, wanted);
  if (*session < 0) return Fail(Stage::kDescriptors, "session");
  // Nothing is open above it but what came in the request.
  auto kept = static_cast<unsigned>(*session);
  if (sys::CloseRange(kept + 1, ~0u, 0) < 0) return Fail(Stage::kDescriptors);
  for (int i = 0; i < 3; ++i) {
    if (fcntl(i, F_DUPFD_CLOEXEC, *session + 1 + i) != *session + 1 + i) return Fail(Stage::kDescriptors, "spare");
  }
  return kept > 3 && sys::CloseRange(3, kept - 1, 0) < 0 ? Fail(Stage::kDescriptors) : kOk;
}

}  // namespace

Failure CheckFork(const ForkSpec& spec, int fd_count) {
  const uint32_t expected = kForkFirstNamespace + spec.namespace_count + spec.has_ruleset + spec.cgroup_count;
  errno = EPROTO;
  if (static_cast<uint32_t>(fd_count) != expected || spec.namespace_count < 2 ||
      spec.namespace_count > kNamespaceCount) {
    return Fail(Stage::kRequest, "fork");
  }
  return kOk;
}

Failure EnterUserAndPidNamespace(const int* fds) {
  // The user namespace first: it brings the capabilities for the others.
  if (setns(fds[kUserNamespace], CLONE_NEWUSER) < 0) return Fail(Stage::kJoinNamespaces, "user");
  return setns(fds[kPidNamespace], CLONE_NEWPID) < 0 ? Fail(Stage::kJoinNamespaces, "pid") : kOk;
}

Failure MoveIn(const ForkSpec& spec, const int* fds, uint64_t data_base, int* session) {
  // Others in the jail see us from birth and have our user id, and we still hold what is not theirs. Until here the
  // capabilities keep them away, which they do not have.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return Fail(Stage::kCapabilities, "dumpable");
  const int* rest = fds + kForkFirstNamespace + spec.namespace_count;
  const int ruleset = spec.has_ruleset != 0 ? *rest++ : -1;
  JAIL_TRY(JoinCgroups(rest, spec.cgroup_count));
  // A process group of its own, and no terminal.
  if (setsid() < 0) return Fail(Stage::kDescriptors, "session");
  JAIL_TRY(JoinNamespaces(spec, fds));
  // Out of memory, the kernel must choose the guest, and neither init nor its checkpoint. Through the jail's own /proc,
  // because the zygote's shows no other process.
  (void)!WriteKernelFile("/proc/self/oom_score_adj", "500", Stage::kLimits);
  JAIL_TRY(BecomeGuest());
  JAIL_TRY(DropCapabilities());
  JAIL_TRY(ForbidNewPrivileges());
  if (chdir("/workspace") < 0) return Fail(Stage::kWorkingDirectory, "/workspace");
  ProcessLimits limits = spec.limits;
  if (limits.data_bytes != 0) limits.data_bytes += data_base;
  JAIL_TRY(SetProcessLimits(limits));
  JAIL_TRY(EnterLandlock(ruleset));
  JAIL_TRY(SetDescriptors(spec, fds, session));
  JAIL_TRY(LoadFilter(spec.strict_memory != 0 ? Filter::kStrictMemory : Filter::kDefault));
  // Confined: the guest's own files in /proc are its own again.
  return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? Fail(Stage::kCapabilities, "dumpable") : kOk;
}

}  // namespace cella::jail
