// CgroupHost: the probe (which hierarchies, where in them) and the sweep.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <map>
#include <set>

#include "os/cgroup.h"
#include "os/cgroup_tree.h"

namespace cella::os {
namespace {

using namespace internal;
using std::chrono::steady_clock;

constexpr unsigned kLimitControllers = kMemory | kPids;
constexpr std::chrono::seconds kSweepBound{1};

std::string ReadAll(const char* path) {
  std::string text;
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return text;
  std::array<char, 8192> chunk;
  for (;;) {
    const ssize_t got = read(file.get(), chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
    if (got > 0) text.append(chunk.data(), static_cast<size_t>(got));
  }
}

// Opens a directory in which we may make groups; sets errno if we may not. `cgroup.procs` tells that it is a cgroup
// and not what lies below a mount that has been covered.
UniqueFd OpenBase(const std::string& path) {
  UniqueFd dir(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir || faccessat(dir.get(), "cgroup.procs", F_OK, 0) != 0 ||
      faccessat(dir.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return UniqueFd();
  }
  return dir;
}

struct Layout {
  std::vector<CgroupMount> mounts;
  std::vector<CgroupMembership> memberships;
};

// --- v1 ---

struct V1Find {
  std::vector<CgroupHierarchy> hierarchies;
  unsigned controllers = 0;
  unsigned refused = 0;  // mounted, but not for us
  int refused_errno = 0;
};

V1Find FindV1(const Layout& layout) {
  V1Find found;
  constexpr unsigned kWanted = kMemory | kPids | kCpu | kCpuacct;
  for (const CgroupMount& mount : layout.mounts) {
    const unsigned controllers = mount.controllers & kWanted & ~found.controllers;
    if (mount.v2 || controllers == 0) continue;
    for (const CgroupMembership& membership : layout.memberships) {
      if (membership.v2 || (membership.controllers & controllers) == 0) continue;
      auto path = VisibleDirectory(mount, membership.path);
      if (!path) break;
      UniqueFd base = OpenBase(*path);
      if (!base) {
        // What an administrator may have made for us.
        *path += "/cella";
        const int error = errno;
        base = OpenBase(*path);
        errno = error;
      }
      if (!base) {
        found.refused |= controllers;
        found.refused_errno = errno;
        break;
      }
      unsigned real = controllers;
      // Absent from kernels without bandwidth control.
      if ((real & kCpu) != 0 && faccessat(base.get(), "cpu.cfs_quota_us", F_OK, 0) != 0) real &= ~kCpu;
      if (real == 0) break;
      found.controllers |= real;
      found.hierarchies.push_back({.base = std::move(base), .path = std::move(*path), .controllers = real});
      break;
    }
  }
  found.refused &= ~found.controllers;
  return found;
}

std::string V1Remedy(const V1Find& found) {
  if (found.refused_errno == EROFS) {
    return fmt::format("The cgroup v1 hierarchies ({}) are mounted read-only; mount them read-write.",
                       ControllerNames(found.refused));
  }
  return fmt::format(
      "The cgroup v1 hierarchies ({}) are not writable for this user; ask an administrator to create a cgroup 'cella' "
      "below this user's in each of them and to chown it to this user, or run as root.",
      ControllerNames(found.refused));
}

// --- v2 ---

struct V2Place {
  std::vector<std::string> candidates;  // our own cgroup, then its ancestors as far as we see them
  unsigned offered = 0;                 // controllers in the whole visible tree
};

unsigned ReadControllers(int dir, std::string_view file) {
  std::array<char, 512> buffer;
  const auto text = ReadControl(dir, ".", file, buffer);
  return text ? ParseControllers(*text, " \n") : 0;
}

V2Place LocateV2(const Layout& layout) {
  V2Place place;
  for (const CgroupMount& mount : layout.mounts) {
    if (!mount.v2) continue;
    for (const CgroupMembership& membership : layout.memberships) {
      if (!membership.v2) continue;
      auto path = VisibleDirectory(mount, membership.path);
      if (!path) continue;
      const UniqueFd top(open(mount.point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!top) continue;
      // A child has at most its parent's controllers: the top shows all there are.
      place.offered = ReadControllers(top.get(), "cgroup.controllers");
      if ((place.offered & kLimitControllers) == 0) continue;
      // An earlier probe of this process, or a parent supervisor, made the leaf that we stand in: not the place for
      // groups.
      const auto own = ParseGroupName(std::string_view(*path).substr(path->rfind('/') + 1));
      if (own && own->name == kSupervisorLeaf && *path != mount.point) path->resize(path->rfind('/'));
      for (; path->size() >= mount.point.size(); path->resize(path->rfind('/'))) {
        place.candidates.push_back(*path);
        if (path->rfind('/') == 0) break;
      }
      return place;
    }
  }
  return place;
}

int Enable(int dir, unsigned controllers) {
  std::string request;
  for (const auto& [bit, text] :
       {std::pair(kMemory, "+memory "), std::pair(kPids, "+pids "), std::pair(kCpu, "+cpu ")}) {
    if ((controllers & bit) != 0) request += text;
  }
  return WriteControl(dir, ".", "cgroup.subtree_control", request);
}

// Empties our own cgroup, if we are alone in it, by moving this process into a leaf below, so that the cgroup may hand
// down controllers; takes it back if that does not help. 0 or an errno.
int EnableFromLeaf(int dir, unsigned controllers, const CgroupTree& tree) {
  const std::vector<pid_t> members = ReadMembers(dir, ".");
  if (members.size() != 1 || members.front() != getpid()) return EBUSY;
  const std::string leaf = FormatGroupName(tree.owner, kSupervisorLeaf);
  if (tree.calls.make(dir, leaf.c_str()) != 0 && errno != EEXIST) return errno;
  int error = WriteControl(dir, leaf, "cgroup.procs", "0");
  if (error == 0) {
    error = Enable(dir, controllers);
    if (error == 0) return 0;
    (void)WriteControl(dir, ".", "cgroup.procs", "0");
  }
  (void)tree.calls.remove(dir, leaf.c_str());
  return error;
}

// Settles `tree` on the first candidate that hands down what the tree offers of memory and pids, or can be made to.
// Returns an empty string, or why there is none.
std::string SettleV2(const V2Place& place, Placement placement, CgroupTree& tree) {
  const unsigned wanted = place.offered & kLimitControllers;
  int refused = 0;
  bool occupied = false;
  for (size_t i = 0; i < place.candidates.size(); ++i) {
    UniqueFd dir = OpenBase(place.candidates[i]);
    // To be born in a group takes the right to write this file of the common ancestor as well.
    if (!dir || faccessat(dir.get(), "cgroup.procs", W_OK, AT_EACCESS) != 0) {
      refused = errno;
      continue;
    }
    const unsigned available = ReadControllers(dir.get(), "cgroup.controllers");
    if ((available & wanted) != wanted) continue;
    const unsigned handed = ReadControllers(dir.get(), "cgroup.subtree_control");
    if (const unsigned missing = wanted & ~handed; missing != 0) {
      int error = Enable(dir.get(), missing);
      if (error == EBUSY && i == 0 && placement == Placement::kMayMove)
        error = EnableFromLeaf(dir.get(), missing, tree);
      if (error == EBUSY) occupied = true;
      if (error != 0) {
        refused = refused == 0 ? error : refused;
        continue;
      }
    }
    if ((available & kCpu & ~handed) != 0) (void)Enable(dir.get(), kCpu);
    tree.version = CgroupVersion::kV2;
    // Read back what is real.
    tree.controllers = ReadControllers(dir.get(), "cgroup.subtree_control") & (kLimitControllers | kCpu);
    tree.hierarchies.push_back({.base = std::move(dir), .path = place.candidates[i], .controllers = tree.controllers});
    tree.controllers |= kCpuacct;  // cpu.stat is there without a controller
    return "";
  }
  const std::string& own = place.candidates.front();
  if (occupied) {
    return fmt::format(
        "Other processes share the cgroup v2 group '{}', so that it cannot hand down controllers; start it in a "
        "delegated scope: systemd-run --user --scope -p Delegate=yes cella …",
        own);
  }
  if (refused == EROFS) {
    return fmt::format("The cgroup v2 tree at '{}' is mounted read-only; mount it read-write.", own);
  }
  return fmt::format(
      "The cgroup v2 group '{}' is not writable for this user; start it in a delegated scope: systemd-run --user "
      "--scope -p Delegate=yes cella … (or run as root).",
      own);
}

std::string LackingText(unsigned lacking, const V1Find& v1) {
  if (lacking == 0) return "";
  if (v1.refused != 0) return V1Remedy(v1);
  return fmt::format("The kernel offers no cgroup controller for {} here; mount or enable it.",
                     ControllerNames(lacking));
}

}  // namespace

CgroupHost CgroupHost::Probe(Placement placement) {
  return ProbeAt(ReadAll("/proc/self/cgroup"), ReadAll("/proc/self/mountinfo"), kKernelDirectoryCalls, placement);
}

CgroupHost CgroupHost::ProbeAt(std::string_view self_cgroup, std::string_view mountinfo,
                               const CgroupDirectoryCalls& calls, Placement placement) {
  auto tree = std::make_shared<CgroupTree>();
  tree->owner = CurrentOwner();
  tree->calls = calls;
  const Layout layout{ParseCgroupMounts(mountinfo), ParseCgroupMemberships(self_cgroup)};

  // v2 first, unless v1 holds more of the controllers that matter: a controller is in one of the two only.
  const V2Place v2 = LocateV2(layout);
  const unsigned v2_limits = v2.offered & kLimitControllers;
  V1Find v1;
  if (v2_limits != kLimitControllers) v1 = FindV1(layout);
  std::string v2_reason;
  if (v2_limits != 0 && std::popcount(v2_limits) > std::popcount(v1.controllers & kLimitControllers)) {
    v2_reason = SettleV2(v2, placement, *tree);
  }
  if (tree->version == CgroupVersion::kNone && (v1.controllers & (kLimitControllers | kCpu)) != 0) {
    tree->version = CgroupVersion::kV1;
    tree->hierarchies = std::move(v1.hierarchies);
    tree->controllers = v1.controllers;
  }

  if (tree->version != CgroupVersion::kNone) {
    tree->reason = LackingText((kLimitControllers | kCpu | kCpuacct) & ~tree->controllers, v1);
  } else if (!v2_reason.empty()) {
    tree->reason = std::move(v2_reason);
  } else if (v1.refused != 0) {
    tree->reason = V1Remedy(v1);
  } else if (layout.mounts.empty()) {
    tree->reason = "No cgroup file system is mounted; mount cgroup2 at /sys/fs/cgroup.";
  } else {
    tree->reason = "The mounted cgroup file systems offer neither memory nor pids here; enable these controllers.";
  }
  return CgroupHost(std::move(tree));
}

CgroupVersion CgroupHost::version() const { return tree_->version; }
bool CgroupHost::has_memory() const { return (tree_->controllers & kMemory) != 0; }
bool CgroupHost::has_pids() const { return (tree_->controllers & kPids) != 0; }
bool CgroupHost::has_cpu() const { return (tree_->controllers & kCpu) != 0; }
bool CgroupHost::has_cpuacct() const { return (tree_->controllers & kCpuacct) != 0; }
const std::string& CgroupHost::reason() const { return tree_->reason; }

size_t CgroupHost::Sweep() const {
  if (tree_->owner.pid_namespace == 0) return 0;
  std::map<Owner, bool> alive;
  // A crash half way through making or removing leaves a group in some hierarchies only, hence a look at each.
  std::set<std::string> dead;
  for (const CgroupHierarchy& hierarchy : tree_->hierarchies) {
    const int fd = openat(hierarchy.base.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
    if (dir == nullptr) {
      if (fd >= 0) (void)close(fd);
      continue;
    }
    while (const dirent* entry = readdir(dir)) {
      const auto group = ParseGroupName(entry->d_name);
      if (!group || group->owner.pid_namespace != tree_->owner.pid_namespace) continue;
      const auto [known, is_new] = alive.try_emplace(group->owner, false);
      if (is_new) known->second = group->owner == tree_->owner || IsAlive(group->owner);
      if (!known->second) dead.insert(entry->d_name);
    }
    (void)closedir(dir);
  }

  size_t removed = 0;
  const Deadline deadline = steady_clock::now() + kSweepBound;
  const unsigned everywhere = (1u << tree_->hierarchies.size()) - 1;
  for (const std::string& name : dead) {
    // What a dead supervisor started besides guests is not ours to kill; we may stand in there ourselves.
    if (ParseGroupName(name)->name == kSupervisorLeaf) {
      if (tree_->calls.remove(tree_->hierarchies.front().base.get(), name.c_str()) == 0) ++removed;
    } else if (RemoveGroup(*tree_, everywhere, name, deadline)) {
      ++removed;
    }
  }
  return removed;
}

}  // namespace cella::os
