// Resource groups for guests: cgroup v2, v1 (one directory in each separately mounted hierarchy), or none.
// CgroupHost knows where groups can be made; it is immutable after the probe, cheap to copy and free to share between
// threads. A Cgroup owns one group: its destructor kills the members and removes the directories. Use one from one
// thread at a time. Both belong to the process that probed (so probe after daemonizing): the names of groups carry its
// pid and start time, which is how a later start knows a dead supervisor's leavings from a live one's groups.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::os {

namespace internal {
struct CgroupTree;
}

enum class CgroupVersion { kNone, kV1, kV2 };

// "none", "v1", "v2".
std::string_view Name(CgroupVersion version);

// An absent limit is no limit.
struct CgroupLimits {
  std::optional<uint64_t> memory = {};  // bytes; swap is not given on top
  std::optional<uint64_t> pids = {};    // processes and threads together, everything inside counts
  std::optional<double> cpus = {};      // 1.5 = one and a half processors

  bool operator==(const CgroupLimits&) const = default;
};

// Absent = this kernel or this set of controllers does not tell.
struct CgroupUsage {
  std::optional<std::chrono::nanoseconds> cpu;
  std::optional<uint64_t> peak_memory;
  std::optional<uint64_t> oom_kills;
  std::optional<uint64_t> pids_refused;  // forks refused by the pids limit
};

// Two figures that are read often, so that their files stay open. Empty: nothing is counted.
class CgroupMeter {
 public:
  std::optional<std::chrono::nanoseconds> Cpu() const;
  std::optional<uint64_t> PeakMemory() const;
  uint64_t OomKills() const;      // 0 where nothing is counted
  uint64_t RefusedForks() const;  // likewise

 private:
  friend class Cgroup;
  UniqueFd cpu_;  // v1: nanoseconds; v2: cpu.stat, microseconds
  UniqueFd peak_;
  UniqueFd oom_kills_;
  UniqueFd refused_forks_;
  bool v2_ = false;
};

class Cgroup {
 public:
  Cgroup() = default;
  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&& other) noexcept;
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;
  // Removes the group; if it is not empty, kills its members first (bounded at two seconds: a process in
  // uninterruptible sleep stays behind, for the next sweep).
  ~Cgroup();

  explicit operator bool() const { return tree_ != nullptr; }
  const std::string& name() const { return name_; }

  // v2: the group's directory for clone3(CLONE_INTO_CGROUP); else -1.
  int v2_dir() const { return v2_dir_.get(); }
  // v1: a descriptor of each hierarchy's `tasks`. A single-threaded child joins by writing "0" into each: the kernel
  // judges by the process that opened it, so the child needs no rights, and a thread that moves itself skips the
  // global lock that makes moving another pid cost 10-15 ms.
  std::span<const UniqueFd> v1_tasks() const { return std::span(tasks_).first(task_count_); }
  // Closes v2_dir() and v1_tasks() while no process joins; the group stays.
  void CloseJoinFds();
  // Opens them again.
  Status OpenJoinFds();

  // Fails only if the group is gone.
  Result<CgroupUsage> Usage() const;
  CgroupMeter OpenMeter() const;
  // Charged now; nothing where no controller counts.
  std::optional<uint64_t> MemoryUsed() const;
  // Kills every member and waits for the deaths, at most two seconds. Does not count as refused forks what the kill
  // itself refuses.
  Status Kill();
  // Replaces all limits. On v1 a group that was made without `cpus` cannot get it later: see Create.
  Status SetLimits(const CgroupLimits& limits);
  bool Empty() const;

 private:
  friend class CgroupHost;

  Status WriteLimits(const CgroupLimits& to);
  Status WriteV1Memory(int base, std::optional<uint64_t> from, std::optional<uint64_t> to);
  void Remove();

  std::shared_ptr<const internal::CgroupTree> tree_;
  std::string name_;
  unsigned used_ = 0;  // bit i: this group has a directory in tree_->hierarchies[i]
  CgroupLimits limits_;
  UniqueFd v2_dir_;
  std::array<UniqueFd, 4> tasks_;
  size_t task_count_ = 0;
  std::optional<uint64_t> pids_refused_before_kill_;
};

// How group directories are made and removed; tests put a pretended kernel here.
struct CgroupDirectoryCalls {
  int (*make)(int parent, const char* name);    // as mkdirat: 0 or -1 with errno
  int (*remove)(int parent, const char* name);  // as unlinkat(AT_REMOVEDIR)
};
extern const CgroupDirectoryCalls kKernelDirectoryCalls;

// Whether a probe may move this process: an application that we are only a part of stays where it is.
enum class Placement { kMayMove, kStays };

class CgroupHost {
 public:
  // Reads /proc/self/cgroup and /proc/self/mountinfo. On v2 this may enable controllers for the children of an own
  // cgroup, and, where this process is that cgroup's only member and may be moved, moves it into a leaf below (a v2
  // cgroup has either processes or controllers for its children).
  static CgroupHost Probe(Placement placement = Placement::kMayMove);
  // The same with the contents of these two files given.
  static CgroupHost ProbeAt(std::string_view self_cgroup, std::string_view mountinfo,
                            const CgroupDirectoryCalls& calls = kKernelDirectoryCalls,
                            Placement placement = Placement::kMayMove);

  explicit CgroupHost(std::shared_ptr<const internal::CgroupTree> tree) : tree_(std::move(tree)) {}

  CgroupVersion version() const;
  bool has_memory() const;
  bool has_pids() const;
  bool has_cpu() const;
  bool has_cpuacct() const;
  // What is lacking, why, and the remedy, as sentences; empty if nothing is.
  const std::string& reason() const;

  // `name`: letters, digits, '.', '_', '-', at most 64, unique among this process's living groups. A limit whose
  // controller is lacking is an error. On v1 the cpu hierarchy is entered only if `cpus` is given: each hierarchy costs
  // the start some 80 us.
  Result<Cgroup> Create(std::string_view name, const CgroupLimits& limits) const;

  // Removes the groups whose supervisor is dead, after killing what is left inside; returns how many. Groups of live
  // supervisors, and of other pid namespaces (whose pids say nothing here), are never touched. Bounded at a second.
  size_t Sweep() const;

 private:
  std::shared_ptr<const internal::CgroupTree> tree_;
};

}  // namespace cella::os
