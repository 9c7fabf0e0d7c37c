// The last steps of a child of init before it becomes the guest's program.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstring>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
namespace {

Failure SetLimit(int resource, uint64_t soft, uint64_t hard, const char* name) {
  // prlimit64 on oneself: glibc's setrlimit does the same.
  rlimit64 limit = {soft, hard};
  if (syscall(SYS_prlimit64, 0, resource, &limit, nullptr) == 0) return kOk;
  if (errno == EPERM) {
    // The hard limit that we inherited is lower, and lowering is all that an ordinary process may do: keep it.
    rlimit64 old = {};
    if (syscall(SYS_prlimit64, 0, resource, nullptr, &old) == 0 && old.rlim_max < hard) {
      limit = {old.rlim_max < soft ? old.rlim_max : soft, old.rlim_max};
      if (syscall(SYS_prlimit64, 0, resource, &limit, nullptr) == 0) return kOk;
    }
  }
  return Fail(Stage::kLimits, name);
}

}  // namespace

Failure SetProcessLimits(const ProcessLimits& limits) {
  // Charged to the user who started the jail as well, so no guest may use up the whole allowance.
  JAIL_TRY(SetLimit(RLIMIT_SIGPENDING, 1024, 1024, "pending signals"));
  JAIL_TRY(SetLimit(RLIMIT_MEMLOCK, 1 << 20, 1 << 20, "locked memory"));
  JAIL_TRY(SetLimit(RLIMIT_RTPRIO, 0, 0, "real-time priority"));
  JAIL_TRY(SetLimit(RLIMIT_NICE, 0, 0, "nice"));
  JAIL_TRY(SetLimit(RLIMIT_MSGQUEUE, 512 << 10, 512 << 10, "message queues"));
  if (limits.cpu_seconds != 0) JAIL_TRY(SetLimit(RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1, "cpu time"));
  if (limits.data_bytes != 0) JAIL_TRY(SetLimit(RLIMIT_DATA, limits.data_bytes, limits.data_bytes, "memory"));
  if (limits.file_bytes != 0) JAIL_TRY(SetLimit(RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes, "file size"));
  if (limits.open_files != 0) JAIL_TRY(SetLimit(RLIMIT_NOFILE, limits.open_files, limits.open_files, "open files"));
  if (limits.processes != 0) JAIL_TRY(SetLimit(RLIMIT_NPROC, limits.processes, limits.processes, "processes"));
  return kOk;
}

namespace {

// Moves the descriptors to 0, 1, 2 (and 3) and closes everything else but the two that are still needed until exec.
Failure SetDescriptors(const GuestFds& fds, int ruleset, int status) {
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds.stdio[i], i) < 0) return Fail(Stage::kDescriptors);
  }
  unsigned low = 3;
  if (fds.session >= 0) {
    if (dup2(fds.session, kSessionFd) < 0) return Fail(Stage::kDescriptors);
    low = kSessionFd + 1;
  }
  int keep[2] = {ruleset < status ? ruleset : status, ruleset < status ? status : ruleset};
  for (int fd : keep) {
    if (fd < 0) continue;
    if (static_cast<unsigned>(fd) > low && sys::CloseRange(low, static_cast<unsigned>(fd) - 1, 0) < 0) {
      return Fail(Stage::kDescriptors);
    }
    low = static_cast<unsigned>(fd) + 1;
  }
  return sys::CloseRange(low, ~0u, 0) < 0 ? Fail(Stage::kDescriptors) : kOk;
}

void ResetSignals() {
  for (int signal = 1; signal < 65; ++signal) {
    // The raw call: glibc keeps two signals to itself, and a process above us may have ignored them.
    struct {
      void (*handler)(int);
      unsigned long flags;
      void (*restorer)();
      unsigned long mask;
    } action = {SIG_DFL, 0, nullptr, 0};
    (void)syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
  }
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
}

Failure Execute(const ExecSpec& exec, char* const* argv, char* const* envp) {
  const char* program = At(&exec, exec.program);
  if (strchr(program, '/') != nullptr) {
    execve(program, argv, envp);
    return Fail(Stage::kExec, program);
  }
  // A bare name: each directory of the guest's PATH in turn.
  const char* search = At(&exec, exec.search_path);
  int error = ENOENT;
  for (const char* directory = search; directory != nullptr && *directory != '\0';) {
    const char* end = strchrnul(directory, ':');
    char path[4096];
    auto length = static_cast<size_t>(end - directory);
    size_t name = strlen(program);
    if (length > 0 && length + 1 + name < sizeof path) {
      memcpy(path, directory, length);
      path[length] = '/';
      memcpy(path + length + 1, program, name + 1);
      execve(path, argv, envp);
      if (errno != ENOENT && errno != ENOTDIR) error = errno;
    }
    directory = *end == ':' ? end + 1 : end;
  }
  errno = error;
  return Fail(Stage::kExec, program);
}

}  // namespace

Failure LimitCoreDumps() { return SetLimit(RLIMIT_CORE, 1, 1, "core"); }

Failure EnterGuest(const ExecSpec& exec, char* const* argv, char* const* envp, const GuestFds& fds, int ruleset,
                   int status, const Interpreter* interpreter) {
  // A new session: no controlling terminal to inject input into, and a process group of its own.
  if (setsid() < 0) return Fail(Stage::kDescriptors, "session");
  JAIL_TRY(SetDescriptors(fds, ruleset, status));
  // In a pid namespace init's death is enough; unconfined, this is what ties the program to us.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Fail(Stage::kDescriptors, "parent death signal");
  JAIL_TRY(SetProcessLimits(exec.limits));
  JAIL_TRY(EnterLandlock(ruleset));
  ResetSignals();
  const char* cwd = At(&exec, exec.cwd);
  if (chdir(cwd) < 0) return Fail(Stage::kWorkingDirectory, cwd);
  const unsigned first_closed = fds.session >= 0 ? kSessionFd + 1 : 3;
  if (interpreter != nullptr) {
    // The end of `status` tells init that the program begins, as an exec does.
    if (sys::CloseRange(first_closed, ~0u, 0) < 0) return Fail(Stage::kDescriptors);
    interpreter->after_fork_child();
    _exit(interpreter->become(argv, envp));
  }
  if (sys::CloseRange(first_closed, ~0u, CLOSE_RANGE_CLOEXEC) < 0) return Fail(Stage::kDescriptors);
  return Execute(exec, argv, envp);
}

}  // namespace cella::jail
