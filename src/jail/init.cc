// PID 1 of a jail (or, unconfined, the watched root of the guest's process tree): starts programs when the supervisor
// asks, reaps everything, reports how the programs ended, and ends everything when the supervisor goes away. A one-shot
// run is one program at a time; a session's runners stay, several languages side by side.
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "jail/exec_block.h"
#include "jail/messages.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/watchdog.h"

namespace cella::jail {
namespace {

constexpr long kWatchIntervalNs = 20'000'000;
constexpr long kIdleWatchIntervalNs = 500'000'000;  // a session between two runs
constexpr int kBreachesBeforeEnd = 5;
constexpr int kMaxPrograms = 16;
constexpr int kReapedPerTurn = 256;
constexpr size_t kDetailSize = sizeof(Report::detail);

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1000;
}

class Init {
 public:
  Init(const JailSpec& spec, const InitFds& fds)
      : unconfined_(spec.flags & kUnconfined),
        session_(spec.flags & kSession),
        fds_(fds),
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
      pollfd ready[3] = {{fds_.control, POLLIN, 0}, {signals, POLLIN, 0}, {timer_, POLLIN, 0}};
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
  // The supervisor is gone or wants nothing more. In a pid namespace the kernel kills the rest with us. Unconfined,
  // init is the last to die: what it left behind would go on as the system's.
  [[noreturn]] void End() {
    if (unconfined_) EndRest();
    _exit(0);
  }

  void KillAll() {
    if (unconfined_) {
      // The kernel signals a group at once, so that no fork of its members escapes. Not yet reaped, the program keeps
      // the group's number its own.
      for (const Program& program : programs_) {
        if (program.pid > 0) (void)kill(-program.pid, SIGKILL);
      }
      KillDescendants(&watchdog_);
    } else {
      (void)kill(-1, SIGKILL);
    }
  }

  void Serve() {
    Request request = {};
    int fds[kMaxMessageFds];
    int count = 0;
    int received = ReceiveRequest(fds_.control, &request, fds, &count);
    if (received <= 0) End();
    switch (request.kind) {
      case RequestKind::kExec:
        if (count == 4 || count == 5) {
          Start(request.tag, fds[0], {fds + 1, count == 5 ? fds[4] : -1});
        } else {
          SendFailure(fds_.control, {Stage::kRequest, EPROTO, "exec"});
        }
        break;
      case RequestKind::kSignal: Signal(request.group, request.signal); break;
      case RequestKind::kNudge:
        if (request.group > 1) (void)kill(request.group, SIGURG);
        break;
      case RequestKind::kKill:
        // Reaping and the report follow from SIGCHLD, as for any other end.
        if (request.group > 1) {
          (void)kill(-request.group, SIGKILL);
        } else {
          KillAll();
          if (session_) Tell(ReportKind::kKilled);
        }
        break;
      case RequestKind::kWatch: WatchRun(request.group); break;
      case RequestKind::kAdopt:
        if (Program* program = FreeSlot(); program != nullptr && request.group > 1) {
          *program = {request.group, request.tag, 0};
        }
        break;
      case RequestKind::kLend: Lend(); break;
      case RequestKind::kListen: Listen(); break;
      case RequestKind::kEcho: Tell(ReportKind::kEchoed, request.tag); break;
      default: SendFailure(fds_.control, {Stage::kRequest, EPROTO, "request"}); break;
    }
    for (int i = 0; i < count; ++i) close(fds[i]);
  }

  void Lend() const {
    Report report = {};
    report.kind = ReportKind::kLent;
    if (!SendReport(fds_.control, report, fds_.entry, fds_.entry_count)) {
      SendFailure(fds_.control, {Stage::kRequest, errno, "lend"});
    }
  }

  // Init has the guest's user id and no capabilities, so it writes nothing that the guest could not write.
  void Listen() const {
    Report report = {};
    report.kind = ReportKind::kListening;
    const int listener = unconfined_ ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, kCallSocket, sizeof address.sun_path - 1);
    (void)unlink(kCallSocket);
    const bool listens = listener >= 0 &&
                         bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                         listen(listener, kCallBacklog) == 0;
    report.error = listens ? 0 : unconfined_ ? EPROTO : errno;
    SendReport(fds_.control, report, &listener, listens ? 1 : 0);
    if (listener >= 0) close(listener);
  }

  void Tell(ReportKind kind, uint32_t tag = 0) const {
    Report report = {};
    report.kind = kind;
    report.tag = tag;
    SendReport(fds_.control, report, nullptr, 0);
  }

  void Signal(int group, int signal) const {
    if (group > 1) {
      (void)kill(-group, signal);
    } else if (unconfined_) {
      // Never to -1: here that is every process.
      for (const Program& program : programs_) {
        if (program.pid > 0) (void)kill(-program.pid, signal);
      }
    } else {
      (void)kill(-1, signal);
    }
  }

  void Start(uint32_t tag, int exec_fd, const GuestFds& fds) {
    char detail[kDetailSize];
    Program* program = FreeSlot();
    Failure failure = {Stage::kRequest, EPROTO, "too many programs"};
    if (program != nullptr) failure = TryStart(program, exec_fd, fds, detail);
    Report report = {};
    report.tag = tag;
    if (failure) {
      FillFailure(failure, &report);
    } else {
      program->tag = tag;
      report.kind = ReportKind::kStarted;
      report.pid = program->pid;
    }
    SendReport(fds_.control, report, nullptr, 0);
  }

  struct Program {
    pid_t pid = 0;
    uint32_t tag = 0;
    uint32_t flags = 0;
  };

  Program* FreeSlot() {
    // A one-shot run has one program at a time.
    for (int i = 0; i < (session_ ? kMaxPrograms : 1); ++i) {
      if (programs_[i].pid == 0) return &programs_[i];
    }
    return nullptr;
  }

  // The failure's detail, if any, is in `detail`.
  Failure TryStart(Program* program, int exec_fd, const GuestFds& fds, char* detail) {
    ExecBlock exec;
    JAIL_TRY(exec.Map(exec_fd));
    if (!session_) ForgetUsage();
    program->flags = exec.spec().flags;
    JAIL_TRY(Fork(program, exec, fds, detail));
    if (!session_ && watchdog_.enabled()) SetTimer(kWatchIntervalNs);
    return kOk;
  }

  void ForgetUsage() {
    cpu_ns_ = 0;
    peak_rss_ = 0;
    watchdog_.Reset(session_);
    killed_for_ = KillReason::kNone;
    breaches_ = 0;
  }

  // What a child that could not become the guest says: by value, since a pointer of its would be ours to follow.
  struct ChildFailure {
    Stage stage;
    int error;
    char detail[kDetailSize];
  };

  Failure Fork(Program* program, const ExecBlock& exec, const GuestFds& fds, char* detail) {
    // Closes by itself when exec succeeds.
    int status[2];
    if (pipe2(status, O_CLOEXEC) < 0) return Fail(Stage::kFork, "pipe");
    // Out of memory, the kernel must choose the guest and not init: the child inherits the raised score. It cannot
    // write its own, since it stays undumpable (and unreadable for other processes of the guest) until exec.
    SetOomScore("500");
    const Interpreter* interpreter = fds_.interpreter;
    if (interpreter != nullptr) interpreter->before_fork();
    pid_t pid = fork();
    if (pid == 0) {
      Failure failure = EnterGuest(exec.spec(), exec.argv(), exec.envp(), fds, fds_.ruleset, status[1], interpreter);
      ChildFailure message = {failure.stage, failure.error, {}};
      if (failure.detail != nullptr) strncpy(message.detail, failure.detail, sizeof message.detail - 1);
      (void)!write(status[1], &message, sizeof message);
      _exit(127);
    }
    int saved = errno;
    if (interpreter != nullptr) interpreter->after_fork_parent();
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
    program->pid = pid;
    return kOk;
  }

  void SetOomScore(const char* score) const {
    if (fds_.oom_score >= 0) (void)!pwrite(fds_.oom_score, score, strlen(score), 0);
  }

  // True when there may be more: a storm of orphans must not keep us from our other duties.
  bool Reap() {
    for (int reaped = 0; reaped < kReapedPerTurn; ++reaped) {
      int status = 0;
      rusage usage = {};
      pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
      if (pid <= 0) return false;
      Account(usage);
      Program* program = FindProgram(pid);
      if (program == nullptr) continue;
      program->pid = 0;
      if (!session_) SetTimer(0);
      if (program->flags & kKillRest) EndRest();
      Report report = {};
      report.kind = ReportKind::kExited;
      report.tag = program->tag;
      report.pid = pid;
      report.wait_status = status;
      report.killed_for = killed_for_;
      report.cpu_ns = cpu_ns_;
      report.peak_rss = watchdog_.peak_memory() > peak_rss_ ? watchdog_.peak_memory() : peak_rss_;
      SendReport(fds_.control, report, nullptr, 0);
    }
    return true;
  }

  Program* FindProgram(pid_t pid) {
    for (Program& program : programs_) {
      if (program.pid == pid) return &program;
    }
    return nullptr;
  }

  // All writers of the guest's pipes are dead when this returns, so the supervisor can read them to their end.
  void EndRest() {
    KillAll();
    constexpr long kFirstPauseNs = 500'000, kLongestPauseNs = 50'000'000;
    long pause_ns = kFirstPauseNs;
    for (;;) {
      rusage usage = {};
      // Without a pid namespace a process may slip through: a look at /proc takes a while, and what was made meanwhile
      // may be missing in it. But whatever lives has come to us as an orphan, or hangs on one that has: as long as
      // there are descendants, there are children.
      pid_t pid = wait4(-1, nullptr, unconfined_ ? __WALL | WNOHANG : __WALL, &usage);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return;
      if (pid == 0) {
        KillAll();
        // One that the kernel does not let die can take long.
        timespec pause = {0, pause_ns};
        nanosleep(&pause, nullptr);
        pause_ns = pause_ns * 2 < kLongestPauseNs ? pause_ns * 2 : kLongestPauseNs;
        continue;
      }
      pause_ns = kFirstPauseNs;
      for (Program& program : programs_) {
        if (program.pid == pid) program.pid = 0;
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

  // A run of a session begins (its limits of time and memory count from here), or has ended.
  void WatchRun(int group) {
    run_group_ = group;
    if (group > 1) ForgetUsage();
    if (watchdog_.enabled()) SetTimer(group > 1 ? kWatchIntervalNs : kIdleWatchIntervalNs);
  }

  void Watch() {
    uint64_t expirations;
    (void)!read(timer_, &expirations, sizeof expirations);
    if (session_) {
      WatchSession();
      return;
    }
    if (programs_[0].pid == 0 || killed_for_ != KillReason::kNone) return;
    killed_for_ = watchdog_.Check(cpu_ns_);
    if (killed_for_ != KillReason::kNone) KillAll();
  }

  // The run that went too far is ended, and what it stood on (its checkpoint, other processes) is spared; unless that
  // does not help.
  void WatchSession() {
    KillReason reason = watchdog_.Check(cpu_ns_);
    // Processor time is the run's; between runs it is not counted.
    if (reason == KillReason::kCpuTime && run_group_ <= 1) reason = KillReason::kNone;
    if (reason == KillReason::kNone) {
      breaches_ = 0;
      return;
    }
    killed_for_ = reason;
    // The reason first: the supervisor looks for it as soon as it sees the end.
    Report report = {};
    report.kind = ReportKind::kBreached;
    report.killed_for = reason;
    report.peak_rss = watchdog_.peak_memory();
    SendReport(fds_.control, report, nullptr, 0);
    // Memory and processes that do not become fewer belong to other sessions. Time cannot become less, and a large
    // process needs some to die: whether this one does is for the supervisor to see, which has heard of it.
    if (run_group_ > 1 && (reason == KillReason::kCpuTime || breaches_++ < kBreachesBeforeEnd)) {
      (void)kill(-run_group_, SIGKILL);
    } else {
      KillAll();
    }
  }

  bool unconfined_;
  bool session_;
  InitFds fds_;
  int timer_ = -1;
  Program programs_[kMaxPrograms];
  int run_group_ = 0;  // 0: no run of a session is on
  int breaches_ = 0;   // in a row
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
