// libcella_fork.so: the jail's door for a Python zygote, loaded with ctypes.PyDLL (which keeps the interpreter's lock).
// The zygote hands its thread over to cella_zygote_serve, which forks on request; in each newborn that call returns,
// inside the jail. cella_checkpoint_fork is for the runner, later, in the jail.
#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "jail/fork_guest.h"
#include "jail/kernel_file.h"
#include "jail/messages.h"
#include "jail/sys.h"
#include "launcher/sibling.h"

using namespace cella::jail;

namespace {

constexpr int kMaxChildren = 8192;
constexpr int kFewForks = 6;  // the first session, and what a pool makes after it
constexpr int kPauseMs = 2;   // that is used after those: under load there is no longer one
constexpr int kReapedPerTurn = 256;
constexpr int kIdle = -2;  // zygote.py knows it as IDLE

// Memory that the interpreter has before any guest does anything: a guest's own limit comes on top.
uint64_t DataBytes() {
  FILE* file = fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long data = 0;
  int n = fscanf(file, "%*u %*u %*u %*u %*u %llu", &data);
  (void)fclose(file);
  return n == 1 ? data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// Restartable sequences, which libraries use for data of each processor. A process that shares memory has none, and so
// the fork of an usher has none, while libc and its users take them for registered. Of libc since 2.35.
class Rseq {
 public:
  void Find() {
    offset_ = static_cast<const ptrdiff_t*>(dlsym(RTLD_DEFAULT, "__rseq_offset"));
    size_ = static_cast<const unsigned*>(dlsym(RTLD_DEFAULT, "__rseq_size"));
  }

  void Register() const {
    constexpr uint32_t kArea = 32;
#if defined(__x86_64__)
    constexpr uint32_t kSignature = 0x53053053;
#else
    constexpr uint32_t kSignature = 0xd428bc00;
#endif
    if (offset_ == nullptr || size_ == nullptr || *size_ == 0) return;
    (void)syscall(SYS_rseq, static_cast<char*>(__builtin_thread_pointer()) + *offset_, kArea, 0, kSignature);
  }

 private:
  const ptrdiff_t* offset_ = nullptr;
  const unsigned* size_ = nullptr;
};

void SetOomScore(const char* score) {
  // Where there is no /proc, the kernel chooses by size alone.
  (void)!WriteKernelFile("/proc/self/oom_score_adj", score, Stage::kLimits);
}

// Large parts of the heap as huge pages: a fork then copies a fraction of the page tables.
void CollapseHeap() {
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  char line[512];
  while (fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0, inode = 0;
    char access[8] = {};
    if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &begin, &end, access, &inode) != 4) continue;
    if (inode != 0 || access[0] != 'r' || access[1] != 'w' || access[3] != 'p' || strstr(line, "[stack]") != nullptr) {
      continue;
    }
    uintptr_t first = (begin + kHuge - 1) & ~(kHuge - 1);
    for (uintptr_t at = first; at + kHuge <= end; at += kHuge) {
      (void)madvise(reinterpret_cast<void*>(at), kHuge, MADV_HUGEPAGE);
      (void)madvise(reinterpret_cast<void*>(at), kHuge, kCollapse);
    }
  }
  (void)fclose(maps);
}

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1000;
}

class Zygote {
 public:
  explicit Zygote(int control) : control_(control) {}

  // -1 when the supervisor wants no more, kIdle when it wanted nothing for so long (-1: whatever happens); in a newborn
  // its session's socket.
  int Serve(int idle_ms) {
    if (signals_ < 0 && !Begin()) return -1;
    if (idle_ms < 0) CollapseHeap();
    data_base_ = DataBytes();
    for (;;) {
      pollfd ready[2] = {{control_, POLLIN, 0}, {signals_, POLLIN, 0}};
      // The first session shall have the processors for itself.
      const int patience = forks_ > kFewForks && idle_ms > kPauseMs ? kPauseMs : idle_ms;
      int count_ready = poll(ready, 2, more_to_reap_ ? 0 : patience);
      if (count_ready < 0 && errno != EINTR) return -1;
      if (count_ready == 0 && !more_to_reap_) return kIdle;
      if (ready[0].revents == 0) {
        // Only now: one that is to be adopted may have ended already, and its end would go unreported.
        char drain[512];
        while (read(signals_, drain, sizeof drain) > 0) {
        }
        Reap();
        continue;
      }
      Request request = {};
      int fds[kMaxMessageFds];
      int count = 0;
      if (ReceiveRequest(control_, &request, fds, &count) <= 0) return -1;
      int session = -1;
      if (request.kind == RequestKind::kFork && Fork(request, fds, count, &session)) return session;
      if (request.kind == RequestKind::kAdopt && IsOurChild(request.group)) Remember(request.group, request.tag);
      if (request.kind == RequestKind::kStatus) TellStatus(request.tag);
      for (int i = 0; i < count; ++i) close(fds[i]);
    }
  }

 private:
  bool Begin() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &mask_before_);
    rseq_.Find();
    signals_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) {
      SendFailure(control_, Fail(Stage::kRequest, "signalfd"));
      return false;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
      SendFailure(control_, Fail(Stage::kRequest, "subreaper"));
      return false;
    }
    Report report = {};
    report.kind = ReportKind::kReady;
    SendReport(control_, report, nullptr, 0);
    return true;
  }

  // True in the newborn.
  bool Fork(const Request& request, const int* fds, int count, int* session) {
    Failure failure = CheckFork(request.fork, count);
    pid_t pid = failure ? -1 : ForkInto(fds, &failure);
    if (pid == 0) {
      failure = MoveIn(request.fork, fds, data_base_, session);
      if (failure) {
        // The control socket is closed only at the end of moving in, and then the failure is the filter's.
        Tell(failure, request.tag);
        _exit(127);
      }
      sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
      return true;
    }
    if (failure) {
      Tell(failure, request.tag);
      return false;
    }
    ++forks_;
    Remember(pid, request.tag);
    int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    Report report = {};
    report.kind = ReportKind::kForked;
    report.tag = request.tag;
    report.pid = pid;
    SendReport(control_, report, &pidfd, pidfd >= 0 ? 1 : 0);
    if (pidfd >= 0) close(pidfd);
    return false;
  }

  struct Birth {
    Failure failure = {};
    pid_t newborn = -1;
  };

  // 0 in the newborn. The usher shares our memory, and we stand still until it is gone, so that the newborn is a copy
  // of this very moment. No other thread may be running, and none is.
  [[gnu::noinline]] pid_t ForkInto(const int* fds, Failure* failure) const {
    static Birth birth;  // the usher writes it, we read it
    birth = {};
    // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): fork would copy our page tables twice
    const pid_t usher = vfork();
    if (usher == 0) {
      Usher(fds, &birth);
      rseq_.Register();
      return 0;
    }
    if (usher < 0) {
      *failure = Fail(Stage::kFork);
      return -1;
    }
    int status = 0;
    while (waitpid(usher, &status, 0) < 0 && errno == EINTR) {
    }
    errno = EPROTO;
    if (birth.newborn <= 0 && !birth.failure) birth.failure = Fail(Stage::kFork, "usher");
    *failure = birth.failure;
    return birth.newborn;
  }

  // Returns in the newborn, and only there. We reap orphans, so the newborn becomes our child when the usher ends.
  [[gnu::noinline]] static void Usher(const int* fds, Birth* birth) {
    birth->failure = EnterUserAndPidNamespace(fds);
    if (!birth->failure) {
      // Without the hooks that Python has for a fork: they renew the locks of threads, and here is only one thread,
      // which holds none. They would cost each newborn some two hundred pages.
      const pid_t pid = fork();
      if (pid == 0) return;
      birth->newborn = pid;
      if (pid < 0) birth->failure = Fail(Stage::kFork);
    }
    _exit(0);
  }

  static bool IsOurChild(pid_t pid) {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
  }

  // Where there is no room, the one that ended longest ago makes it; the supervisor has not asked for it.
  void Remember(pid_t pid, uint32_t tag) {
    if (used_ == kMaxChildren) {
      for (int i = 0; i < used_; ++i) {
        if (!child_[i].ended) continue;
        Forget(i);
        break;
      }
    }
    if (used_ < kMaxChildren) child_[used_++] = {pid, tag, false, 0, 0, 0};
  }

  void Forget(int index) {
    for (int i = index; i + 1 < used_; ++i) child_[i] = child_[i + 1];
    --used_;
  }

  void TellStatus(uint32_t tag) {
    Reap();
    Report report = {};
    report.kind = ReportKind::kExited;
    report.tag = tag;
    report.error = ESRCH;
    for (int i = 0; i < used_; ++i) {
      if (child_[i].tag != tag || !child_[i].ended) continue;
      report.error = 0;
      report.wait_status = child_[i].status;
      report.cpu_ns = child_[i].cpu_ns;
      report.peak_rss = child_[i].peak_rss;
      Forget(i);
      break;
    }
    SendReport(control_, report, nullptr, 0);
  }

  void Tell(const Failure& failure, uint32_t tag) const {
    Report report = {};
    report.tag = tag;
    FillFailure(failure, &report);
    SendReport(control_, report, nullptr, 0);
  }

  // Also what runners made as our children: checkpoints, and whatever a guest does with CLONE_PARENT. An end is
  // reported only when the supervisor asks, so no guest can flood it.
  void Reap() {
    for (int reaped = 0; reaped < kReapedPerTurn; ++reaped) {
      int status = 0;
      rusage usage = {};
      pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
      more_to_reap_ = pid > 0;
      if (pid <= 0) return;
      for (int i = 0; i < used_; ++i) {
        if (child_[i].pid != pid || child_[i].ended) continue;
        child_[i].ended = true;
        child_[i].status = status;
        child_[i].cpu_ns = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
        child_[i].peak_rss = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
        break;
      }
    }
  }

  struct Child {
    pid_t pid;
    uint32_t tag;
    bool ended;
    int status;
    uint64_t cpu_ns;
    uint64_t peak_rss;
  };

  int control_;
  int signals_ = -1;
  sigset_t mask_before_ = {};
  uint64_t data_base_ = 0;
  Rseq rseq_;
  int forks_ = 0;
  bool more_to_reap_ = false;  // a storm of them must not keep us from serving
  int used_ = 0;
  Child child_[kMaxChildren];
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int cella_zygote_serve(int control, int idle_ms) {
  // Too large for a stack, and there is one per process. Called again after kIdle, it goes on.
  alignas(Zygote) static char storage[sizeof(Zygote)];
  static Zygote* zygote = nullptr;
  if (zygote == nullptr) zygote = new (storage) Zygote(control);
  return zygote->Serve(idle_ms);
}

// A copy of the calling process as its sibling, so that code that waits for its children does not reap it. The copy
// sleeps in here, having touched next to nothing, until its own socket `ours` has something to read; then it has the
// place of the original (`ours` as `session`) and returns 0. No fork hooks run: it goes on exactly where it was. It
// ends when the other end of `ours` closes. The original gets the copy's number and *pidfd, or -errno.
__attribute__((visibility("default"))) int cella_checkpoint_fork(int* pidfd, int session, int ours, int theirs) {
  int settled[2];
  if (pipe2(settled, O_CLOEXEC) < 0) return -errno;
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  long pid = CloneSibling(pidfd);
  if (pid == 0) {
    // Out of the group that is killed with a run, and no choice of the kernel's when memory runs out. Only then is the
    // copy worth anything, so the original waits for it.
    (void)setpgid(0, 0);
    SetOomScore("0");
    (void)!write(settled[1], "s", 1);
    close(settled[0]);
    close(settled[1]);
    close(theirs);
    (void)dup3(ours, session, O_CLOEXEC);
    close(ours);
    char byte;
    ssize_t n;
    do {
      n = recv(session, &byte, 1, MSG_PEEK);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) _exit(0);
    SetOomScore("500");
    // What was sent to it meanwhile was meant for the original.
    timespec now = {};
    while (sigtimedwait(&all, nullptr, &now) > 0) {
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return 0;
  }
  int error = errno;
  close(settled[1]);
  char byte;
  if (pid > 0 && read(settled[0], &byte, 1) != 1) {
    error = ESRCH;
    close(*pidfd);
    pid = -1;
  }
  close(settled[0]);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return pid < 0 ? -error : static_cast<int>(pid);
}
}
