// PID 1 of a jail (or, unconfined, the watched root of the guest's process tree): starts programs when the supervisor
// asks, reaps everything, reports how the main process ended, and ends everything when the supervisor goes away.
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "jail/messages.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/watchdog.h"

namespace cella::jail {
namespace {

constexpr long kWatchIntervalNs = 20'000'000;
constexpr int kReapedPerTurn = 256;
constexpr size_t kDetailSize = sizeof(Report::detail);

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1000;
}

class Init {
 public:
  Init(const JailSpec& spec, const InitFds& fds)
      : unconfined_(spec.flags & kUnconfined),
        control_(fds.control),
        ruleset_(fds.ruleset),
        oom_score_(fds.oom_score),
        watchdog_(spec.watch, getpid(), unconfined_) {}

  [[noreturn]] void Run() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    bool more_to_reap = false;
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    for (;;) {
      pollfd ready[3] = {{control_, POLLIN, 0}, {signals, POLLIN, 0}, {timer_, POLLIN, 0}};
      if (poll(ready, 3, more_to_reap ? 0 : -1) < 0 && errno != EINTR) End();
      // Requests first: whatever the guest does, the supervisor is heard.
      if (ready[0].revents != 0) Serve();
      if (ready[1].revents & POLLIN) {
        char drain[512];
        while (read(signals, drain, sizeof drain) > 0) {
        }
        more_to_reap = true;
      }
      if (more_to_reap) more_to_reap = Reap();
      if (ready[2].revents & POLLIN) Watch();
    }
  }

 private:
  // The supervisor is gone or wants nothing more. In a pid namespace the kernel kills the rest with us.
  [[noreturn]] void End() {
    if (unconfined_) KillDescendants(&watchdog_);
    _exit(0);
  }

  void KillAll() {
    if (unconfined_) {
      KillDescendants(&watchdog_);
    } else {
      (void)kill(-1, SIGKILL);
    }
  }

  void Serve() {
    Request request = {};
    int fds[kMaxMessageFds];
    int count = 0;
    int received = ReceiveRequest(control_, &request, fds, &count);
    if (received <= 0) End();
    switch (request.kind) {
      case RequestKind::kExec:
        if (count == 4) {
          Start(fds[0], fds + 1);
        } else {
          SendFailure(control_, {Stage::kRequest, EPROTO, "exec"});
        }
        break;
      case RequestKind::kSignal:
        // Nobody is meant by 0: that would be our own group.
        if (main_ > 0) (void)kill(unconfined_ ? -main_ : -1, request.signal);
        break;
      case RequestKind::kKill:
        // Reaping and the report follow from SIGCHLD, as for any other end.
        KillAll();
        break;
      case RequestKind::kBuild: SendFailure(control_, {Stage::kRequest, EPROTO, "build"}); break;
    }
    for (int i = 0; i < count; ++i) close(fds[i]);
  }

  void Start(int exec_fd, const int stdio[3]) {
    char detail[kDetailSize];
    if (Failure failure = TryStart(exec_fd, stdio, detail)) {
      SendFailure(control_, failure);
      return;
    }
    Report report = {};
    report.kind = ReportKind::kStarted;
    SendReport(control_, report, nullptr, 0);
  }

  // The failure's detail, if any, is in `detail`.
  Failure TryStart(int exec_fd, const int stdio[3], char* detail) {
    errno = EPROTO;
    if (main_ != 0) return Fail(Stage::kRequest, "a program runs already");
    size_t size = 0;
    const auto* exec = static_cast<const ExecSpec*>(MapBlock(exec_fd, sizeof(ExecSpec), &size));
    if (exec == nullptr || exec->magic != kSpecMagic || exec->size != size) return Fail(Stage::kRequest, "exec");

    // argv and envp as pointers, in memory of their own: the block may be larger than any stack.
    size_t pointers = static_cast<size_t>(exec->argc) + exec->envc + 2;
    size_t table_bytes = pointers * sizeof(char*);
    void* table = mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return Fail(Stage::kFork, "argument table");
    auto** argv = static_cast<char**>(table);
    auto** envp = argv + exec->argc + 1;
    const auto* refs = reinterpret_cast<const StringRef*>(exec + 1);
    for (uint32_t i = 0; i < exec->argc; ++i) argv[i] = const_cast<char*>(At(exec, refs[i]));
    for (uint32_t i = 0; i < exec->envc; ++i) envp[i] = const_cast<char*>(At(exec, refs[exec->argc + i]));

    cpu_ns_ = 0;
    peak_rss_ = 0;
    watchdog_.Reset();
    killed_for_ = KillReason::kNone;
    flags_ = exec->flags;
    Failure failure = Fork(*exec, argv, envp, stdio, detail);
    munmap(table, table_bytes);
    munmap(const_cast<ExecSpec*>(exec), size);
    if (!failure && watchdog_.enabled()) SetTimer(kWatchIntervalNs);
    return failure;
  }

  // What a child that could not become the guest says: by value, since a pointer of its would be ours to follow.
  struct ChildFailure {
    Stage stage;
    int error;
    char detail[kDetailSize];
  };

  Failure Fork(const ExecSpec& exec, char* const* argv, char* const* envp, const int stdio[3], char* detail) {
    // Closes by itself when exec succeeds.
    int status[2];
    if (pipe2(status, O_CLOEXEC) < 0) return Fail(Stage::kFork, "pipe");
    // Out of memory, the kernel must choose the guest and not init: the child inherits the raised score. It cannot
    // write its own, since it stays undumpable (and unreadable for other processes of the guest) until exec.
    SetOomScore("500");
    pid_t pid = fork();
    if (pid == 0) {
      Failure failure = EnterGuest(exec, argv, envp, stdio, ruleset_, status[1]);
      ChildFailure message = {failure.stage, failure.error, {}};
      if (failure.detail != nullptr) strncpy(message.detail, failure.detail, sizeof message.detail - 1);
      (void)!write(status[1], &message, sizeof message);
      _exit(127);
    }
    int saved = errno;
    SetOomScore("0");
    close(status[1]);
    ChildFailure message = {};
    ssize_t n = -1;
    if (pid > 0) {
      do {
        n = read(status[0], &message, sizeof message);
      } while (n < 0 && errno == EINTR);
    }
    close(status[0]);
    if (pid < 0) {
      errno = saved;
      return Fail(Stage::kFork);
    }
    if (n == static_cast<ssize_t>(sizeof message)) {
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      memcpy(detail, message.detail, kDetailSize);
      detail[kDetailSize - 1] = '\0';
      return Failure{message.stage, message.error, detail};
    }
    main_ = pid;
    return kOk;
  }

  void SetOomScore(const char* score) const {
    if (oom_score_ >= 0) (void)!pwrite(oom_score_, score, strlen(score), 0);
  }

  // True when there may be more: a storm of orphans must not keep us from our other duties.
  bool Reap() {
    for (int reaped = 0; reaped < kReapedPerTurn; ++reaped) {
      int status = 0;
      rusage usage = {};
      pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
      if (pid <= 0) return false;
      Account(usage);
      if (pid != main_) continue;
      main_ = 0;
      SetTimer(0);
      if (flags_ & kKillRest) EndRest();
      Report report = {};
      report.kind = ReportKind::kExited;
      report.wait_status = status;
      report.killed_for = killed_for_;
      report.cpu_ns = cpu_ns_;
      report.peak_rss = watchdog_.peak_memory() > peak_rss_ ? watchdog_.peak_memory() : peak_rss_;
      SendReport(control_, report, nullptr, 0);
    }
    return true;
  }

  // All writers of the guest's pipes are dead when this returns, so the supervisor can read them to their end.
  void EndRest() {
    KillAll();
    for (;;) {
      rusage usage = {};
      // Without a pid namespace a process may slip through; then nobody can be waited for yet.
      pid_t pid = wait4(-1, nullptr, unconfined_ ? __WALL | WNOHANG : __WALL, &usage);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return;
      if (pid == 0) {
        KillAll();
        timespec pause = {0, 500'000};
        nanosleep(&pause, nullptr);
        continue;
      }
      Account(usage);
    }
  }

  void Account(const rusage& usage) {
    cpu_ns_ += Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
    uint64_t rss = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    if (rss > peak_rss_) peak_rss_ = rss;
  }

  void SetTimer(long interval_ns) {
    itimerspec spec = {};
    spec.it_interval.tv_nsec = interval_ns;
    spec.it_value.tv_nsec = interval_ns;
    timerfd_settime(timer_, 0, &spec, nullptr);
  }

  void Watch() {
    uint64_t expirations;
    (void)!read(timer_, &expirations, sizeof expirations);
    if (main_ == 0 || killed_for_ != KillReason::kNone) return;
    killed_for_ = watchdog_.Check(cpu_ns_);
    if (killed_for_ != KillReason::kNone) {
      KillAll();
    }
  }

  bool unconfined_;
  int control_;
  int ruleset_;
  int oom_score_;
  int timer_ = -1;
  pid_t main_ = 0;
  uint32_t flags_ = 0;
  uint64_t cpu_ns_ = 0;
  uint64_t peak_rss_ = 0;
  KillReason killed_for_ = KillReason::kNone;
  Watchdog watchdog_;
};

}  // namespace

void RunInit(const JailSpec& spec, const InitFds& fds) {
  // Too large for a stack that may be small, and there is one init per process.
  alignas(Init) static char storage[sizeof(Init)];
  (new (storage) Init(spec, fds))->Run();
}

}  // namespace cella::jail
