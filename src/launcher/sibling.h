// A copy of the calling process as its sibling: the copy's parent is the caller's parent.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cella::jail {

// As fork, without the hooks that libraries have for it: 0 in the copy, which goes on exactly where the caller was.
// Only while the process has one thread.
inline long CloneSibling(int* pidfd) {
  // As fork does it: libc remembers the thread's number.
  int* tid = nullptr;
  unsigned long flags = CLONE_PARENT | CLONE_PIDFD | SIGCHLD;
  if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) == 0 && tid != nullptr) {
    flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  }
#if defined(__x86_64__)
  return syscall(SYS_clone, flags, nullptr, pidfd, tid, nullptr);
#else
  return syscall(SYS_clone, flags, nullptr, pidfd, nullptr, tid);
#endif
}

}  // namespace cella::jail
