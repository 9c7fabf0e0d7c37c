#include "os/process.h"

#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>

#include "os/syscalls.h"

namespace cella::os {
namespace {

// Above every target; low, since the limit of open files may be.
constexpr int kFirstSpareFd = 16;

struct ChildContext {
  const char* program;
  char* const* argv;
  char* const* envp;
  const SpawnOptions::Fd* fds;
  size_t fd_count;
  const char* cwd;  // null: ours
  int error;
};

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CELLA_THREAD_SANITIZER
#endif
#endif
// ThreadSanitizer takes a child in the parent's memory for the parent. With a copy, a failed exec is only an exit
// status.
#ifdef CELLA_THREAD_SANITIZER
constexpr int kChildMemory = 0;
#else
constexpr int kChildMemory = CLONE_VM;
#endif

// Runs on its own stack but in the parent's memory, while the parent waits: only system calls, no allocation.
int ChildMain(void* argument) {
  auto* context = static_cast<ChildContext*>(argument);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < 65; ++signal) (void)sigaction(signal, &standard, nullptr);
  // Also what our own parent leaked into us without close-on-exec.
  (void)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
  // First out of the way of the targets, then into place.
  std::array<int, 16> spare{};
  for (size_t i = 0; i < context->fd_count; ++i) {
    spare[i] = fcntl(context->fds[i].source, F_DUPFD_CLOEXEC, kFirstSpareFd);
    if (spare[i] < 0) {
      context->error = errno;
      _exit(127);
    }
  }
  for (size_t i = 0; i < context->fd_count; ++i) {
    if (dup2(spare[i], context->fds[i].target) < 0) {
      context->error = errno;
      _exit(127);
    }
  }
  if (context->cwd != nullptr && chdir(context->cwd) < 0) {
    context->error = errno;
    _exit(127);
  }
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(context->program, context->argv, context->envp);
  context->error = errno;
  _exit(127);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<Process> Process::Spawn(const SpawnOptions& options) {
  if (options.fds.size() > 16) return Err(ErrorCode::kInvalid, "too many descriptors for '{}'", options.program);
  std::vector<char*> argv = Pointers(options.argv);
  std::vector<char*> envp = Pointers(options.env);
  const char* cwd = options.cwd.empty() ? nullptr : options.cwd.c_str();
  ChildContext context = {
      options.program.c_str(), argv.data(), envp.data(), options.fds.data(), options.fds.size(), cwd, 0};

  constexpr size_t kStackSize = 64 * 1024;
  void* stack = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return SysErr(errno, "allocate a stack");
  // A handler of ours must not run in the child, where it would work on our memory.
  sigset_t all, previous;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &previous);
  int pidfd = -1;
  int pid = clone(ChildMain, static_cast<char*>(stack) + kStackSize, kChildMemory | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
                  &context, &pidfd);
  int clone_error = errno;
  (void)pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  (void)munmap(stack, kStackSize);
  if (pid < 0) return SysErr(clone_error, "start '{}'", options.program);
  Process process{UniqueFd(pidfd)};  // close-on-exec by birth
  if (context.error != 0) {
    (void)process.Wait();
    return SysErr(context.error, "start '{}'", options.program);
  }
  return process;
}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pidfd_, other.pidfd_);  // the old one is killed and reaped with `other`
  return *this;
}

Process::~Process() {
  if (!pidfd_) return;
  (void)Signal(SIGKILL);
  (void)Wait();
}

Status Process::Signal(int signal) const {
  if (!pidfd_) return {};
  if (PidfdSendSignal(pidfd_.get(), signal) < 0 && errno != ESRCH) return SysErr(errno, "signal a process");
  return {};
}

Result<int> Process::Wait() {
  if (!pidfd_) return Err(ErrorCode::kInvalid, "the process was waited for already");
  siginfo_t info = {};
  int waited = RetryOnEintr([&] { return waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED); });
  pidfd_.Reset();
  if (waited < 0) return SysErr(errno, "wait for a process");
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status & 0x7f;
}

}  // namespace cella::os
