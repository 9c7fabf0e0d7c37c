#include "os/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>

#include "os/cgroup_tree.h"

namespace cella::os {
namespace {

using namespace internal;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kKillBound{2};
constexpr uint64_t kCpuPeriodUs = 100'000;  // the kernel's default in both versions, so v1 never needs it written

uint64_t CpuQuota(double cpus) {
  constexpr uint64_t kLeast = 1'000;  // the kernel refuses less than a millisecond
  return std::max(kLeast, static_cast<uint64_t>(std::llround(std::min(cpus, 1e6) * static_cast<double>(kCpuPeriodUs))));
}

std::string NumberOr(std::optional<uint64_t> value, std::string_view otherwise) {
  return value ? fmt::format("{}", *value) : std::string(otherwise);
}

Status CheckWrite(int error, std::string_view group, std::string_view file, std::string_view value) {
  if (error == 0) return {};
  return SysErr(error, "write '{}' to {} of cgroup '{}'", value, file, group);
}

Status Write(int base, std::string_view group, std::string_view file, std::string_view value) {
  return CheckWrite(WriteControl(base, group, file, value), group, file, value);
}

Status CheckEnforceable(const CgroupTree& tree, const CgroupLimits& limits) {
  unsigned asked = 0;
  if (limits.memory) asked |= kMemory;
  if (limits.pids) asked |= kPids;
  if (limits.cpus) asked |= kCpu;
  if (const unsigned lacking = asked & ~tree.controllers; lacking != 0) {
    return Err(ErrorCode::kUnsupported, "no cgroup controller for the limit of {}: {}", ControllerNames(lacking),
               tree.reason);
  }
  if (limits.cpus && !(std::isfinite(*limits.cpus) && *limits.cpus > 0)) {
    return Err(ErrorCode::kInvalid, "a limit of {} processors makes no sense", *limits.cpus);
  }
  return {};
}

}  // namespace

std::string_view Name(CgroupVersion version) {
  switch (version) {
    case CgroupVersion::kV1: return "v1";
    case CgroupVersion::kV2: return "v2";
    case CgroupVersion::kNone: break;
  }
  return "none";
}

Cgroup::Cgroup(Cgroup&& other) noexcept
    : tree_(std::exchange(other.tree_, nullptr)),
      name_(std::move(other.name_)),
      used_(std::exchange(other.used_, 0)),
      limits_(other.limits_),
      v2_dir_(std::move(other.v2_dir_)),
      tasks_(std::move(other.tasks_)),
      task_count_(std::exchange(other.task_count_, 0)),
      pids_refused_before_kill_(other.pids_refused_before_kill_) {}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  if (this != &other) {
    Remove();
    tree_ = std::exchange(other.tree_, nullptr);
    name_ = std::move(other.name_);
    used_ = std::exchange(other.used_, 0);
    limits_ = other.limits_;
    v2_dir_ = std::move(other.v2_dir_);
    tasks_ = std::move(other.tasks_);
    task_count_ = std::exchange(other.task_count_, 0);
    pids_refused_before_kill_ = other.pids_refused_before_kill_;
  }
  return *this;
}

Cgroup::~Cgroup() { Remove(); }

void Cgroup::Remove() {
  if (!tree_) return;
  CloseJoinFds();
  (void)RemoveGroup(*tree_, used_, name_, steady_clock::now() + kKillBound);
  tree_ = nullptr;
}

Result<Cgroup> CgroupHost::Create(std::string_view name, const CgroupLimits& limits) const {
  if (tree_->version == CgroupVersion::kNone) {
    return Err(ErrorCode::kUnsupported, "cannot make a cgroup: {}", tree_->reason);
  }
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, allowed) || name == kSupervisorLeaf) {
    return Err(ErrorCode::kInvalid, "'{}' cannot name a cgroup", name);
  }
  TRY_VOID(CheckEnforceable(*tree_, limits));

  Cgroup group;
  group.tree_ = tree_;
  group.name_ = FormatGroupName(tree_->owner, name);
  for (size_t i = 0; i < tree_->hierarchies.size(); ++i) {
    const CgroupHierarchy& hierarchy = tree_->hierarchies[i];
    if (hierarchy.controllers == kCpu && tree_->version == CgroupVersion::kV1 && !limits.cpus) continue;
    if (tree_->calls.make(hierarchy.base.get(), group.name_.c_str()) != 0) {
      return SysErr(errno, "make cgroup '{}/{}'", hierarchy.path, group.name_);
    }
    group.used_ |= 1u << i;  // from here on the destructor removes it
  }
  TRY_VOID(group.WriteLimits(limits));
  TRY_VOID(group.OpenJoinFds());
  return group;
}

Status Cgroup::OpenJoinFds() {
  if (!tree_ || v2_dir_ || task_count_ > 0) return {};
  if (tree_->version == CgroupVersion::kV2) {
    const CgroupHierarchy& hierarchy = tree_->hierarchies.front();
    v2_dir_.Reset(openat(hierarchy.base.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!v2_dir_) return SysErr(errno, "open cgroup '{}/{}'", hierarchy.path, name_);
    return {};
  }
  const std::string tasks = name_ + "/tasks";
  for (size_t i = 0; i < tree_->hierarchies.size(); ++i) {
    if ((used_ & (1u << i)) == 0) continue;
    const CgroupHierarchy& hierarchy = tree_->hierarchies[i];
    UniqueFd& door = tasks_[task_count_];
    door.Reset(openat(hierarchy.base.get(), tasks.c_str(), O_WRONLY | O_CLOEXEC));
    if (!door) {
      // All or none: a guest must not join half of its limits.
      auto failed = SysErr(errno, "open '{}/{}'", hierarchy.path, tasks);
      CloseJoinFds();
      return failed;
    }
    ++task_count_;
  }
  return {};
}

void Cgroup::CloseJoinFds() {
  v2_dir_.Reset();
  for (UniqueFd& door : tasks_) door.Reset();
  task_count_ = 0;
}

Status Cgroup::SetLimits(const CgroupLimits& limits) {
  if (!tree_) return Err(ErrorCode::kInvalid, "no cgroup");
  TRY_VOID(CheckEnforceable(*tree_, limits));
  return WriteLimits(limits);
}

Status Cgroup::WriteLimits(const CgroupLimits& to) {
  const bool v2 = tree_->version == CgroupVersion::kV2;
  if (to.memory != limits_.memory) {
    const int base = tree_->With(kMemory)->base.get();
    if (v2) {
      TRY_VOID(Write(base, name_, "memory.max", NumberOr(to.memory, "max")));
      const std::string_view swap = to.memory ? "0" : "max";
      const int error = WriteControl(base, name_, "memory.swap.max", swap);
      // The file is not there when the kernel does not account swap.
      if (error != ENOENT) TRY_VOID(CheckWrite(error, name_, "memory.swap.max", swap));
    } else {
      TRY_VOID(WriteV1Memory(base, limits_.memory, to.memory));
    }
    limits_.memory = to.memory;
  }
  if (to.pids != limits_.pids) {
    TRY_VOID(Write(tree_->With(kPids)->base.get(), name_, "pids.max", NumberOr(to.pids, "max")));
    limits_.pids = to.pids;
  }
  if (to.cpus != limits_.cpus) {
    const CgroupHierarchy* cpu = tree_->With(kCpu);
    if ((used_ & (1u << (cpu - tree_->hierarchies.data()))) == 0) {
      return Err(ErrorCode::kUnsupported, "cgroup '{}' was made without a limit of cpus; give one when it is made",
                 name_);
    }
    const std::optional<uint64_t> quota = to.cpus ? std::optional(CpuQuota(*to.cpus)) : std::nullopt;
    if (v2) {
      TRY_VOID(Write(cpu->base.get(), name_, "cpu.max", fmt::format("{} {}", NumberOr(quota, "max"), kCpuPeriodUs)));
    } else {
      const std::string value = NumberOr(quota, "-1");
      int error = WriteControl(cpu->base.get(), name_, "cpu.cfs_quota_us", value);
      // v1 refuses more than a parent has. The parent's smaller share holds for its children, so none of our own is
      // needed.
      if (error == EINVAL && quota) error = WriteControl(cpu->base.get(), name_, "cpu.cfs_quota_us", "-1");
      TRY_VOID(CheckWrite(error, name_, "cpu.cfs_quota_us", value));
    }
    limits_.cpus = to.cpus;
  }
  return {};
}

Status Cgroup::WriteV1Memory(int base, std::optional<uint64_t> from, std::optional<uint64_t> to) {
  constexpr std::string_view kLimit = "memory.limit_in_bytes";
  constexpr std::string_view kLimitWithSwap = "memory.memsw.limit_in_bytes";
  const std::string value = NumberOr(to, "-1");
  // The limit with swap may at no time be below the one without: growing starts with it, shrinking ends with it.
  const bool grows = from && (!to || *to > *from);
  int swap_error = grows ? WriteControl(base, name_, kLimitWithSwap, value) : 0;
  TRY_VOID(Write(base, name_, kLimit, value));
  if (!grows) swap_error = WriteControl(base, name_, kLimitWithSwap, value);
  if (swap_error == ENOENT) {
    // Swap is not accounted: at least keep the group's memory from being swapped out.
    if (to) (void)WriteControl(base, name_, "memory.swappiness", "0");
    return {};
  }
  return CheckWrite(swap_error, name_, kLimitWithSwap, value);
}

Result<CgroupUsage> Cgroup::Usage() const {
  if (!tree_) return Err(ErrorCode::kInvalid, "no cgroup");
  const bool v2 = tree_->version == CgroupVersion::kV2;
  CgroupUsage usage;
  if (v2) {
    const int base = tree_->hierarchies.front().base.get();
    if (const auto used = ReadKeyed(base, name_, "cpu.stat", "usage_usec"))
      usage.cpu = std::chrono::microseconds(*used);
  } else if (const CgroupHierarchy* cpuacct = tree_->With(kCpuacct)) {
    if (const auto used = ReadNumber(cpuacct->base.get(), name_, "cpuacct.usage")) {
      usage.cpu = std::chrono::nanoseconds(*used);
    }
  }
  if (const CgroupHierarchy* memory = tree_->With(kMemory)) {
    const int base = memory->base.get();
    usage.peak_memory = ReadNumber(base, name_, v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    usage.oom_kills = ReadKeyed(base, name_, v2 ? "memory.events" : "memory.oom_control", "oom_kill");
  }
  if (pids_refused_before_kill_) {
    usage.pids_refused = pids_refused_before_kill_;
  } else if (const CgroupHierarchy* pids = tree_->With(kPids)) {
    usage.pids_refused = ReadKeyed(pids->base.get(), name_, "pids.events", "max");
  }
  if (!usage.cpu && !usage.peak_memory && !usage.oom_kills && !usage.pids_refused &&
      faccessat(tree_->hierarchies.front().base.get(), name_.c_str(), F_OK, 0) != 0) {
    return SysErr(errno, "cgroup '{}'", name_);
  }
  return usage;
}

namespace {

UniqueFd OpenFigure(const CgroupHierarchy* hierarchy, const std::string& group, const char* file) {
  if (hierarchy == nullptr) return {};
  std::string path = group + "/" + file;
  return UniqueFd(openat(hierarchy->base.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::optional<uint64_t> ReadFigure(const UniqueFd& file, std::string_view key) {
  if (!file) return std::nullopt;
  std::array<char, 256> text;
  ssize_t n = pread(file.get(), text.data(), text.size() - 1, 0);
  if (n <= 0) return std::nullopt;
  std::string_view content(text.data(), static_cast<size_t>(n));
  if (!key.empty()) {
    // At the start of a line: "oom_kill " is also the end of other keys.
    size_t at = content.starts_with(key) ? 0 : content.find("\n" + std::string(key));
    if (at == std::string_view::npos) return std::nullopt;
    content.remove_prefix(at + key.size() + (content[at] == '\n' ? 1 : 0));
  }
  uint64_t value = 0;
  auto parsed = std::from_chars(content.data(), content.data() + content.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<std::chrono::nanoseconds> CgroupMeter::Cpu() const {
  auto value = ReadFigure(cpu_, v2_ ? "usage_usec " : "");
  if (!value) return std::nullopt;
  return std::chrono::nanoseconds(v2_ ? *value * 1000 : *value);
}

std::optional<uint64_t> CgroupMeter::PeakMemory() const { return ReadFigure(peak_, ""); }

uint64_t CgroupMeter::OomKills() const { return ReadFigure(oom_kills_, "oom_kill ").value_or(0); }

uint64_t CgroupMeter::RefusedForks() const { return ReadFigure(refused_forks_, "max ").value_or(0); }

CgroupMeter Cgroup::OpenMeter() const {
  CgroupMeter meter;
  if (!tree_) return meter;
  meter.v2_ = tree_->version == CgroupVersion::kV2;
  const CgroupHierarchy* cpu = meter.v2_ ? &tree_->hierarchies.front() : tree_->With(kCpuacct);
  meter.cpu_ = OpenFigure(cpu, name_, meter.v2_ ? "cpu.stat" : "cpuacct.usage");
  meter.oom_kills_ = OpenFigure(tree_->With(kMemory), name_, meter.v2_ ? "memory.events" : "memory.oom_control");
  meter.refused_forks_ = OpenFigure(tree_->With(kPids), name_, "pids.events");
  meter.peak_ = OpenFigure(tree_->With(kMemory), name_, meter.v2_ ? "memory.peak" : "memory.max_usage_in_bytes");
  return meter;
}

std::optional<uint64_t> Cgroup::MemoryUsed() const {
  if (!tree_) return std::nullopt;
  const CgroupHierarchy* memory = tree_->With(kMemory);
  if (memory == nullptr) return std::nullopt;
  const bool v2 = tree_->version == CgroupVersion::kV2;
  return ReadNumber(memory->base.get(), name_, v2 ? "memory.current" : "memory.usage_in_bytes");
}

Status Cgroup::Kill() {
  if (!tree_) return Err(ErrorCode::kInvalid, "no cgroup");
  const KillReport report = KillGroup(*tree_, used_, name_, steady_clock::now() + kKillBound);
  if (report.forks_barred) {
    if (!pids_refused_before_kill_) pids_refused_before_kill_ = report.pids_refused_before;
    TRY_VOID(Write(tree_->With(kPids)->base.get(), name_, "pids.max", NumberOr(limits_.pids, "max")));
  }
  if (!report.emptied) return Err(ErrorCode::kInternal, "cgroup '{}' still has processes after SIGKILL", name_);
  return {};
}

bool Cgroup::Empty() const {
  if (!tree_) return true;
  for (size_t i = 0; i < tree_->hierarchies.size(); ++i) {
    if ((used_ & (1u << i)) != 0 && !ReadMembers(tree_->hierarchies[i].base.get(), name_).empty()) return false;
  }
  return true;
}

}  // namespace cella::os
