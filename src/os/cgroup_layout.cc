#include "os/cgroup_layout.h"

#include <array>
#include <utility>

#include "os/mount_points.h"

namespace cella::os::internal {
namespace {

constexpr std::array<std::pair<std::string_view, unsigned>, 4> kControllers{{
    {"memory", kMemory},
    {"pids", kPids},
    {"cpu", kCpu},
    {"cpuacct", kCpuacct},
}};

// Takes the part up to a separator off the front of `rest`.
std::string_view TakeUntil(std::string_view& rest, std::string_view separators) {
  const size_t end = rest.find_first_of(separators);
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return taken;
}

// "/.." is how the kernel shows what lies outside the reader's cgroup namespace.
bool LeavesNamespace(std::string_view path) { return path == "/.." || path.starts_with("/../"); }

}  // namespace

unsigned ParseControllers(std::string_view names, std::string_view separators) {
  unsigned set = 0;
  while (!names.empty()) {
    const std::string_view name = TakeUntil(names, separators);
    for (const auto& [known, bit] : kControllers) {
      if (name == known) set |= bit;
    }
  }
  return set;
}

std::string ControllerNames(unsigned controllers) {
  std::string out;
  for (const auto& [name, bit] : kControllers) {
    if ((controllers & bit) == 0) continue;
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

std::vector<CgroupMount> ParseCgroupMounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  while (!mountinfo.empty()) {
    std::string_view line = TakeUntil(mountinfo, "\n");
    // id parent major:minor root point options [optional fields] - type source super-options. No field holds a bare
    // space, so that the first " - " is the separator whatever the number of optional fields.
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view tail = line.substr(dash + 3);
    const std::string_view type = TakeUntil(tail, " ");
    if (type != "cgroup" && type != "cgroup2") continue;
    TakeUntil(tail, " ");
    std::string_view head = line.substr(0, dash);
    for (int skipped = 0; skipped < 3; ++skipped) TakeUntil(head, " ");
    CgroupMount mount;
    mount.v2 = type == "cgroup2";
    mount.root = UnescapeMountPath(TakeUntil(head, " "));
    mount.point = UnescapeMountPath(TakeUntil(head, " "));
    if (!mount.root.starts_with('/') || !mount.point.starts_with('/')) continue;
    if (!mount.v2) mount.controllers = ParseControllers(tail, ",");
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<CgroupMembership> ParseCgroupMemberships(std::string_view self_cgroup) {
  std::vector<CgroupMembership> memberships;
  while (!self_cgroup.empty()) {
    std::string_view line = TakeUntil(self_cgroup, "\n");
    // id:controllers:path, and the path may hold colons.
    const std::string_view id = TakeUntil(line, ":");
    const std::string_view controllers = TakeUntil(line, ":");
    if (!line.starts_with('/')) continue;
    memberships.push_back({.v2 = id == "0" && controllers.empty(),
                           .controllers = ParseControllers(controllers, ","),
                           .path = std::string(line)});
  }
  return memberships;
}

std::optional<std::string> VisibleDirectory(const CgroupMount& mount, std::string_view path) {
  if (LeavesNamespace(path) || LeavesNamespace(mount.root)) return std::nullopt;
  if (mount.root != "/") {
    if (!path.starts_with(mount.root)) return std::nullopt;
    path.remove_prefix(mount.root.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
  }
  while (path.ends_with('/')) path.remove_suffix(1);
  if (mount.point == "/") return path.empty() ? "/" : std::string(path);
  return mount.point + std::string(path);
}

}  // namespace cella::os::internal
