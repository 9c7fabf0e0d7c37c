// System calls without a wrapper in the oldest glibc that we support (2.34), and thin helpers around EINTR.
#pragma once

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cella::os {

inline int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

inline int PidfdSendSignal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

inline int Openat2(int dir, const char* path, const open_how& how) {
  return static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof how));
}

template <typename F>
auto RetryOnEintr(F&& call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace cella::os
