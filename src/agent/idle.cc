#include "agent/idle.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace cella::agent {
namespace {

constexpr int kMostRounds = 500;
constexpr long kPauseNs = 10'000'000;

void Reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

void EndOthers() {
  for (int round = 0; round < kMostRounds; ++round) {
    Reap();
    if (kill(-1, SIGKILL) < 0 && errno == ESRCH) return;
    const timespec pause = {0, kPauseNs};
    (void)nanosleep(&pause, nullptr);
  }
}

int Idle() {
  // Blocked signals are not lost, also for PID 1, which otherwise gets none that it does not handle.
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, number);
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) < 0) return 1;
  // A supervisor that waits for the end of the session sees the end of the stream.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return 1;
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) (void)dup2(null, fd);
  for (;;) {
    const int number = sigwaitinfo(&signals, nullptr);
    if (number == SIGTERM || number == SIGINT) return 0;
    Reap();
  }
}

}  // namespace cella::agent
