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

Failure SetLimits(const ExecSpec& exec) {
  // Charged to whoever started the jail as well, so no guest may use up the whole allowance.
  JAIL_TRY(SetLimit(RLIMIT_SIGPENDING, 1024, 1024, "pending signals"));
  JAIL_TRY(SetLimit(RLIMIT_MEMLOCK, 1 << 20, 1 << 20, "locked memory"));
  JAIL_TRY(SetLimit(RLIMIT_RTPRIO, 0, 0, "real-time priority"));
  JAIL_TRY(SetLimit(RLIMIT_NICE, 0, 0, "nice"));
  JAIL_TRY(SetLimit(RLIMIT_MSGQUEUE, 512 << 10, 512 << 10, "message queues"));
  if (exec.cpu_seconds != 0) JAIL_TRY(SetLimit(RLIMIT_CPU, exec.cpu_seconds, exec.cpu_seconds + 1, "cpu time"));
  if (exec.data_bytes != 0) JAIL_TRY(SetLimit(RLIMIT_DATA, exec.data_bytes, exec.data_bytes, "memory"));
  if (exec.file_bytes != 0) JAIL_TRY(SetLimit(RLIMIT_FSIZE, exec.file_bytes, exec.file_bytes, "file size"));
  if (exec.open_files != 0) JAIL_TRY(SetLimit(RLIMIT_NOFILE, exec.open_files, exec.open_files, "open files"));
  if (exec.processes != 0) JAIL_TRY(SetLimit(RLIMIT_NPROC, exec.processes, exec.processes, "processes"));
  return kOk;
}

// Moves the descriptors to 0, 1, 2 and closes everything else but the two that are still needed until exec.
Failure SetDescriptors(const int stdio[3], int ruleset, int status) {
  for (int i = 0; i < 3; ++i) {
    if (dup2(stdio[i], i) < 0) return Fail(Stage::kDescriptors);
  }
  unsigned low = 3;
  int keep[2] = {ruleset < status ? ruleset : status, ruleset < status ? status : ruleset};
  for (int fd : keep) {
    if (fd < 3) continue;
    if (static_cast<unsigned>(fd) > low && sys::CloseRange(low, static_cast<unsigned>(fd) - 1, 0) < 0) {
      return Fail(Stage::kDescriptors);
    }
    low = static_cast<unsigned>(fd) + 1;
  }
  return sys::CloseRange(low, ~0u, 0) < 0 ? Fail(Stage::kDescriptors) : kOk;
}

void ResetSignals() {
  for (int signal = 1; signal < 65; ++signal) {
    // The raw call: glibc keeps two signals to itself, and somebody above us may have had them ignored.
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

Failure EnterGuest(const ExecSpec& exec, char* const* argv, char* const* envp, const int stdio[3], int ruleset,
                   int status) {
  // A new session: no controlling terminal to inject input into, and a process group of its own.
  if (setsid() < 0) return Fail(Stage::kDescriptors, "session");
  JAIL_TRY(SetDescriptors(stdio, ruleset, status));
  // In a pid namespace init's death is enough; unconfined, this is what ties the program to us.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Fail(Stage::kDescriptors, "parent death signal");
  JAIL_TRY(SetLimits(exec));
  JAIL_TRY(EnterLandlock(ruleset));
  ResetSignals();
  const char* cwd = At(&exec, exec.cwd);
  if (chdir(cwd) < 0) return Fail(Stage::kWorkingDirectory, cwd);
  if (sys::CloseRange(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0) return Fail(Stage::kDescriptors);
  return Execute(exec, argv, envp);
}

}  // namespace cella::jail
