#include "jail/watchdog.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statfs.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "jail/sys.h"

namespace cella::jail {
namespace {

// Reads a file of a process (0: our own) into a terminated buffer; empty when it is gone or not readable.
size_t ReadProc(pid_t pid, const char* name, char* buffer, size_t capacity) {
  char path[64];
  if (pid == 0) {
    snprintf(path, sizeof path, "/proc/self/%s", name);
  } else {
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  if (fd >= 0) {
    while (length + 1 < capacity) {
      ssize_t n = read(fd, buffer + length, capacity - 1 - length);
      if (n <= 0) break;
      length += static_cast<size_t>(n);
    }
    close(fd);
  }
  buffer[length] = '\0';
  return length;
}

// The number behind "Name:" in kB, as bytes; 0 when absent.
uint64_t KilobyteField(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : strtoull(at + strlen(name), nullptr, 10) * 1024;
}

struct Times {
  pid_t parent = 0;
  bool zombie = false;
  uint64_t threads = 0;         // field 20
  uint64_t own_ticks = 0;       // fields 14 and 15
  uint64_t children_ticks = 0;  // fields 16 and 17: of those that it waited for
};

// The name in field 2 may hold spaces and parentheses, so the count starts behind the last one.
bool ParseStat(const char* text, Times* times) {
  const char* at = strrchr(text, ')');
  if (at == nullptr) return false;
  char state;
  unsigned long user = 0, system = 0;
  long children_user = 0, children_system = 0, threads = 0;
  int parent = 0;
  if (sscanf(at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %ld", &state, &parent, &user,
             &system, &children_user, &children_system, &threads) != 7) {
    return false;
  }
  times->parent = parent;
  times->threads = static_cast<uint64_t>(threads);
  times->zombie = state == 'Z' || state == 'X';
  times->own_ticks = user + system;
  times->children_ticks = static_cast<uint64_t>(children_user + children_system);
  return true;
}

uint64_t TmpfsUsed(const char* path) {
  struct statfs info;
  if (statfs(path, &info) < 0) return 0;
  return (info.f_blocks - info.f_bfree) * static_cast<uint64_t>(info.f_bsize);
}

// An upper bound for the watches of a process's epoll instances: each may watch each of its other descriptors.
uint64_t PossibleWatches(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) {
    // It hides. Half of its table may be instances.
    char text[4096];
    ReadProc(pid, "status", text, sizeof text);
    const char* size = strstr(text, "FDSize:");
    const uint64_t half = size == nullptr ? 0 : strtoull(size + 7, nullptr, 10) / 2;
    return half * half;
  }
  uint64_t instances = 0, others = 0;
  alignas(dirent64) char buffer[16384];
  long n;
  while ((n = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
    for (long offset = 0; offset < n;) {
      auto* entry = reinterpret_cast<dirent64*>(buffer + offset);
      offset += entry->d_reclen;
      char target[32];
      ssize_t length = readlinkat(directory, entry->d_name, target, sizeof target);
      if (length <= 0) continue;
      constexpr char kEpoll[] = "anon_inode:[eventpoll]";
      const bool is_epoll = length == sizeof kEpoll - 1 && memcmp(target, kEpoll, sizeof kEpoll - 1) == 0;
      ++(is_epoll ? instances : others);
    }
  }
  close(directory);
  return instances * (instances + others);
}

// Sockets of the jail's network namespace, at the memory that their buffers may hold by default (the filter keeps a
// guest from enlarging them).
uint64_t SocketBuffers() {
  constexpr uint64_t kPerSocket = 256 << 10;
  char text[1024];
  ReadProc(0, "net/sockstat", text, sizeof text);
  const char* used = strstr(text, "sockets: used ");
  return used == nullptr ? 0 : strtoull(used + 14, nullptr, 10) * kPerSocket;
}

}  // namespace

Watchdog::Watchdog(const WatchLimits& limits, pid_t own_pid, bool descendants_only)
    : limits_(limits), own_pid_(own_pid), descendants_only_(descendants_only) {}

void Watchdog::Reset(bool counts_from_now) {
  count_ = 0;
  lost_cpu_ns_ = reaped_before_ = peak_memory_ = before_ns_ = 0;
  if (!counts_from_now || limits_.cpu_ns == 0) return;
  Scan(0);
  for (int i = 0; i < count_; ++i) before_ns_ += seen_[i].cpu_ns + seen_[i].children_ns;
}

bool Watchdog::enabled() const { return limits_.memory_bytes != 0 || limits_.cpu_ns != 0 || limits_.processes != 0; }

Watchdog::Seen* Watchdog::Find(pid_t pid) {
  Seen* end = seen_ + count_;
  Seen* found =
      std::lower_bound(seen_, end, pid, [](const Seen& process, pid_t wanted) { return process.pid < wanted; });
  return found != end && found->pid == pid ? found : nullptr;
}

// Each process is asked once: from it up to an ancestor whose kin is known, and down again with the answer.
void Watchdog::KeepDescendants() {
  for (int i = 0; i < count_; ++i) {
    Kin answer = Kin::kStranger;
    for (Seen* at = &seen_[i]; at != nullptr; at = Find(at->parent)) {
      if (at->kin != Kin::kUnknown) {
        // A number that passed on during the look can close a circle.
        if (at->kin == Kin::kDescendant) answer = Kin::kDescendant;
        break;
      }
      at->kin = Kin::kLooking;
      if (at->parent != own_pid_) continue;
      answer = Kin::kDescendant;
      break;
    }
    for (Seen* at = &seen_[i]; at != nullptr && at->kin == Kin::kLooking; at = Find(at->parent)) at->kin = answer;
  }
  count_ = static_cast<int>(
      std::remove_if(seen_, seen_ + count_, [](const Seen& process) { return process.kin != Kin::kDescendant; }) -
      seen_);
}

void Watchdog::Scan(uint64_t reaped_cpu_ns) {
  static Seen before[kMaxWatched];
  int before_count = count_;
  memcpy(before, seen_, sizeof(Seen) * static_cast<size_t>(count_));
  count_ = 0;

  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return;
  const auto ns_per_tick = 1'000'000'000ull / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  alignas(dirent64) char buffer[16384];
  long n;
  while ((n = syscall(SYS_getdents64, proc, buffer, sizeof buffer)) > 0) {
    for (long offset = 0; offset < n;) {
      auto* entry = reinterpret_cast<dirent64*>(buffer + offset);
      offset += entry->d_reclen;
      pid_t pid = atoi(entry->d_name);
      if (pid <= 0 || pid == own_pid_ || count_ == kMaxWatched) continue;
      char stat[1024];
      Times times;
      if (ReadProc(pid, "stat", stat, sizeof stat) == 0 || !ParseStat(stat, &times)) continue;
      Seen process = {pid,
                      times.parent,
                      times.own_ticks * ns_per_tick,
                      times.children_ticks * ns_per_tick,
                      times.threads,
                      0,
                      times.zombie,
                      Kin::kUnknown};
      seen_[count_++] = process;
    }
  }
  close(proc);
  std::sort(seen_, seen_ + count_, [](const Seen& a, const Seen& b) { return a.pid < b.pid; });
  if (descendants_only_) KeepDescendants();

  // What a process used is added to the process that waits for it: a parent's children time, or what init reaped. What
  // went nowhere (its parent ignores SIGCHLD) is remembered, so that it counts too.
  uint64_t vanished = 0, arrived = reaped_cpu_ns - reaped_before_;
  reaped_before_ = reaped_cpu_ns;
  for (int i = 0; i < before_count; ++i) {
    Seen* now = Find(before[i].pid);
    if (now != nullptr) now->watches = before[i].watches;
    if (now == nullptr) {
      vanished += before[i].cpu_ns + before[i].children_ns;
    } else if (now->children_ns > before[i].children_ns) {
      arrived += now->children_ns - before[i].children_ns;
    }
  }
  if (vanished > arrived) lost_cpu_ns_ += vanished - arrived;
}

// A few processes at each look, in turns: a guest decides how many descriptors there are to look at.
void Watchdog::CountSomeWatches() {
  constexpr int kAtOnce = 4;
  const int at_once = count_ < kAtOnce ? count_ : kAtOnce;
  for (int counted = 0; counted < at_once; ++counted) {
    Seen* next = nullptr;  // the smallest number above the last one, or else the smallest
    Seen* first = nullptr;
    for (int i = 0; i < count_; ++i) {
      if (first == nullptr || seen_[i].pid < first->pid) first = &seen_[i];
      if (seen_[i].pid > last_counted_ && (next == nullptr || seen_[i].pid < next->pid)) next = &seen_[i];
    }
    if (next == nullptr) next = first;
    last_counted_ = next->pid;
    next->watches = PossibleWatches(next->pid);
  }
}

uint64_t Watchdog::SumMemory(bool exact) const {
  // A watch takes 0.2 KiB of kernel memory. It counts for more, because all guests of a user share the number of
  // watches that the kernel permits.
  constexpr uint64_t kPerWatch = 1024;
  uint64_t sum = 0;
  for (int i = 0; i < count_; ++i) {
    sum += seen_[i].watches * kPerWatch;
    char text[4096];
    // Readable whatever the process does to hide.
    if (ReadProc(seen_[i].pid, "status", text, sizeof text) == 0) continue;
    uint64_t resident = KilobyteField(text, "RssAnon:") + KilobyteField(text, "RssShmem:");
    sum += KilobyteField(text, "VmPTE:");  // page tables of a large sparse mapping are memory too
    if (exact && ReadProc(seen_[i].pid, "smaps_rollup", text, sizeof text) > 0) {
      // Shared pages divided by their users: a pool of forked workers is not charged for its common heap many times.
      resident = KilobyteField(text, "Pss_Anon:") + KilobyteField(text, "Pss_Shmem:");
    }
    sum += resident;
  }
  return sum;
}

KillReason Watchdog::Check(uint64_t reaped_cpu_ns) {
  Scan(reaped_cpu_ns);
  uint64_t threads = 0;
  for (int i = 0; i < count_; ++i) threads += seen_[i].zombie ? 0 : seen_[i].threads;
  if (limits_.processes != 0 && threads > limits_.processes) return KillReason::kProcesses;
  if (limits_.memory_bytes != 0) {
    CountSomeWatches();
    uint64_t files = descendants_only_ ? 0 : TmpfsUsed("/tmp") + SocketBuffers();
    uint64_t memory = SumMemory(false) + files;
    if (memory > limits_.memory_bytes) memory = SumMemory(true) + files;
    if (memory > peak_memory_) peak_memory_ = memory;
    if (memory > limits_.memory_bytes) return KillReason::kMemory;
  }
  // Last: between the runs of a session it is no breach, and what comes before it counts there too.
  if (limits_.cpu_ns != 0) {
    uint64_t cpu = reaped_cpu_ns + lost_cpu_ns_;
    for (int i = 0; i < count_; ++i) cpu += seen_[i].cpu_ns + seen_[i].children_ns;
    if (cpu > limits_.cpu_ns + before_ns_) {
      // Time once spent stays spent, also when the spender is dead: only more of it is another breach.
      before_ns_ = cpu - limits_.cpu_ns;
      return KillReason::kCpuTime;
    }
  }
  return KillReason::kNone;
}

int Watchdog::FindTree(pid_t* pids, int capacity) {
  Scan(reaped_before_);
  int n = 0;
  for (int i = 0; i < count_ && n < capacity; ++i) {
    if (!seen_[i].zombie) pids[n++] = seen_[i].pid;
  }
  return n;
}

namespace {

// Processes that fork and exit at once are gone whenever a look at all of /proc gets to them. But as orphans they are
// our own children, whose numbers are not reused while we have not reaped them: these can be killed as fast as the
// kernel lists them.
void KillOwnChildren() {
  static char list[1 << 16];
  for (int round = 0; round < 100; ++round) {
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t length = read(fd, list, sizeof list - 1);
    close(fd);
    if (length <= 0) return;
    list[length] = '\0';
    for (char* at = list; *at != '\0';) {
      long pid = strtol(at, &at, 10);
      if (pid > 0) (void)kill(static_cast<pid_t>(pid), SIGKILL);
      while (*at == ' ') ++at;
    }
  }
}

}  // namespace

void KillDescendants(Watchdog* watchdog) {
  static pid_t pids[kMaxWatched];
  // Orphans come to us (we are their subreaper), so each round reaches what the last one's victims left behind. The
  // dead wait to be reaped where their status is wanted.
  for (int round = 0; round < 500; ++round) {
    int n = watchdog->FindTree(pids, kMaxWatched);
    KillOwnChildren();
    if (n == 0) return;
    for (int i = 0; i < n; ++i) {
      int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pids[i], 0));
      if (pidfd < 0) continue;
      // Between the look and the open the number may have passed to a stranger: ask again whose child it is.
      char stat[1024];
      Times times;
      bool ours = ReadProc(pids[i], "stat", stat, sizeof stat) > 0 && ParseStat(stat, &times);
      if (ours && times.parent != getpid()) ours = std::binary_search(pids, pids + n, times.parent);
      if (ours) (void)sys::PidfdSendSignal(pidfd, SIGKILL);
      close(pidfd);
    }
  }
}

}  // namespace cella::jail
