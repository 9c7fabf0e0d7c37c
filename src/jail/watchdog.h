// What init can measure of its guest without cgroups: the processes of the jail (or, unconfined, all descendants) by
// reading /proc. Used a few dozen times a second, and only where a limit has no better mechanism.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "jail/protocol.h"
#include "jail/spec.h"

namespace cella::jail {

// Unconfined, all processes of the machine are looked at.
inline constexpr int kMaxWatched = 16384;

class Watchdog {
 public:
  // `own_pid` is init; with `descendants_only` (no pid namespace of our own) only its tree is looked at.
  Watchdog(const WatchLimits& limits, pid_t own_pid, bool descendants_only);

  bool enabled() const;

  // Forgets what earlier programs used. With `counts_from_now`, also what those that live have used so far.
  void Reset(bool counts_from_now);

  // Reads /proc once. `reaped_cpu_ns`: processor time of processes that were waited for. A breach of processor time is
  // told again only when still more was used.
  KillReason Check(uint64_t reaped_cpu_ns);

  uint64_t peak_memory() const { return peak_memory_; }

  // The living, by a new look, in the order of their numbers; unconfined only: a number may have passed on since, so
  // verify with a pidfd.
  int FindTree(pid_t* pids, int capacity);

 private:
  enum class Kin : uint8_t { kUnknown, kLooking, kDescendant, kStranger };
  struct Seen {
    pid_t pid;
    pid_t parent;
    uint64_t cpu_ns;
    uint64_t children_ns;  // of those that it waited for
    uint64_t threads;
    uint64_t watches;  // that its epoll instances may hold
    bool zombie;
    Kin kin;
  };
  Seen* Find(pid_t pid);
  void KeepDescendants();
  void Scan(uint64_t reaped_cpu_ns);
  void CountSomeWatches();
  uint64_t SumMemory(bool exact) const;

  WatchLimits limits_;
  pid_t own_pid_;
  bool descendants_only_;
  uint64_t peak_memory_ = 0;
  uint64_t before_ns_ = 0;    // processor time that does not count
  uint64_t lost_cpu_ns_ = 0;  // of processes that no parent waited for
  uint64_t reaped_before_ = 0;
  int count_ = 0;
  pid_t last_counted_ = 0;  // by CountSomeWatches
  Seen seen_[kMaxWatched];  // by pid
};

// Without a pid namespace: kills every descendant of the caller until a look finds none, in bounded time. Reaps none.
void KillDescendants(Watchdog* watchdog);

}  // namespace cella::jail
