// Mounts on which the owner of a host directory appears as the guest, and on which what the guest creates belongs to
// that owner. Used when root starts a jail: the guest's host id then belongs to no user, and must not own files
// outside.
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>

#include "jail/kernel_file.h"
#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
Failure OpenIdmap(uint32_t owner_uid, uint32_t owner_gid, uint32_t shown_uid, uint32_t shown_gid, int* fd) {
  // A user namespace exists only with a process inside; this one waits for its pipe to close.
  int hold[2];
  if (pipe2(hold, O_CLOEXEC) < 0) return Fail(Stage::kIdmap);
  clone_args args = {};
  args.flags = CLONE_NEWUSER;
  args.exit_signal = SIGCHLD;
  long pid = sys::Clone3(&args);
  if (pid < 0) return Fail(Stage::kIdmap);
  if (pid == 0) {
    close(hold[1]);
    char byte;
    (void)!read(hold[0], &byte, 1);
    _exit(0);
  }
  close(hold[0]);
  // On an idmapped mount the "inside" id is the one on disk, the "outside" id the one that processes see.
  bool ok = !WriteIdMap(static_cast<int>(pid), "uid_map", owner_uid, shown_uid, Stage::kIdmap) &&
            !WriteIdMap(static_cast<int>(pid), "gid_map", owner_gid, shown_gid, Stage::kIdmap);
  if (ok) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/ns/user", pid);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    ok = *fd >= 0;
  }
  int saved = errno;
  close(hold[1]);
  while (waitpid(static_cast<int>(pid), nullptr, 0) < 0 && errno == EINTR) {
  }
  errno = saved;
  return ok ? kOk : Fail(Stage::kIdmap);
}

}  // namespace cella::jail
