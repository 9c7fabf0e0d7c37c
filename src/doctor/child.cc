#include "doctor/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "os/syscalls.h"

namespace cella::doctor {

void DieWithParent() { (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); }

bool WaitInTime(int pidfd, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limit;
  bool ended = false;
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait = {pidfd, POLLIN, 0};
    int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) ended = true;
    if (ready > 0 || left <= 0 || (ready < 0 && errno != EINTR)) break;
  }
  if (!ended) (void)os::PidfdSendSignal(pidfd, SIGKILL);
  siginfo_t info = {};
  constexpr auto kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, which glibc names since 2.36
  if (os::RetryOnEintr([&] { return waitid(kPidfd, static_cast<id_t>(pidfd), &info, WEXITED); }) < 0) return false;
  return ended && info.si_code == CLD_EXITED && info.si_status == 0;
}

bool RunInChild(const std::function<void()>& body, std::chrono::milliseconds limit) {
  pid_t pid = fork();
  if (pid < 0) return false;
  if (pid == 0) {
    DieWithParent();
    body();
    _exit(0);
  }
  UniqueFd pidfd(os::PidfdOpen(pid));
  if (!pidfd) {
    // The number is ours until it is reaped.
    (void)kill(pid, SIGKILL);
    (void)os::RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
    return false;
  }
  return WaitInTime(pidfd.get(), limit);
}

}  // namespace cella::doctor
