#include "confine/root_tree.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "confine/launch_context.h"
#include "language/visible.h"

namespace cella::confine {
namespace {

// Synthetic, never the host's: the guest must not learn its users, and uid 1000 must have a name.
constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "user:x:1000:1000:user:/tmp:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
constexpr std::string_view kGroup = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
constexpr std::string_view kHosts = "127.0.0.1 localhost cella\n::1 localhost cella\n";
constexpr std::string_view kNsswitch =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

// Below /etc: the linker's cache, links of update-alternatives (numerical libraries are found through them),
// certificates, time zone, names of ports and protocols.
constexpr const char* kEtcEntries[] = {"ld.so.cache",  "alternatives", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
                                       "pki/ca-trust", "localtime",    "services",  "protocols"};
constexpr const char* kEtcForNetwork[] = {"resolv.conf", "gai.conf"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};

Status AddSystemDirectories(JailSpecBuilder* builder) {
  TRY_VOID(builder->AddMount("/usr", "/usr", 0));
  for (const char* directory : {"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}) {
    struct stat info;
    if (lstat(directory, &info) < 0) continue;
    if (S_ISDIR(info.st_mode)) {
      TRY_VOID(builder->AddMount(directory, directory, 0));
      continue;
    }
    if (!S_ISLNK(info.st_mode)) continue;
    std::array<char, PATH_MAX> target;
    ssize_t length = readlink(directory, target.data(), target.size());
    if (length < 0) return SysErr(errno, "read the link '{}'", directory);
    TRY_VOID(builder->AddLink({target.data(), static_cast<size_t>(length)}, directory));
  }
  return {};
}

// At its own path, with the real one behind it: the launcher follows no links.
Status AddReadOnly(const std::string& path, uint32_t flags, JailSpecBuilder* builder) {
  std::array<char, PATH_MAX> real;
  if (realpath(path.c_str(), real.data()) == nullptr) {
    if (errno == ENOENT && (flags & jail::kMountOptional) != 0) return {};
    return SysErr(errno, "'{}'", path);
  }
  return builder->AddMount(real.data(), path, flags);
}

Status AddEtc(const language::Plan& plan, const Policy& policy, JailSpecBuilder* builder) {
  auto add = [&](const std::string& entry) { return AddReadOnly("/etc/" + entry, jail::kMountOptional, builder); };
  for (const char* entry : kEtcEntries) TRY_VOID(add(entry));
  for (const std::string& entry : plan.etc) {
    bool known = false;
    for (const char* standard : kEtcEntries) known = known || entry == standard;
    if (!known) TRY_VOID(add(entry));
  }
  if (policy.network == Network::kHost) {
    for (const char* entry : kEtcForNetwork) TRY_VOID(add(entry));
  }
  TRY_VOID(builder->AddFile("/etc/passwd", kPasswd));
  TRY_VOID(builder->AddFile("/etc/group", kGroup));
  TRY_VOID(builder->AddFile("/etc/hosts", kHosts));
  TRY_VOID(builder->AddFile("/etc/nsswitch.conf", kNsswitch));
  return {};
}

Status CheckTarget(const std::string& target) {
  std::filesystem::path path(target);
  if (!path.is_absolute() || path.lexically_normal().native() != target || target.ends_with('/')) {
    return Err(ErrorCode::kInvalid, "mount target '{}' must be an absolute path without '..' or a trailing slash",
               target);
  }
  // The jail's own; anything below /proc, /dev and /sys as well.
  for (std::string_view reserved : {"/workspace", "/tmp", "/var", "/var/tmp", "/run", "/usr", "/etc", "/bin", "/sbin",
                                    "/lib", "/lib64", "/lib32", "/libx32"}) {
    if (target == reserved) return Err(ErrorCode::kInvalid, "'{}' cannot be mounted over", target);
  }
  for (std::string_view reserved : {"/proc", "/dev", "/sys", kRunnersInside, kLayersInside}) {
    if (language::IsBelow(target, reserved)) {
      return Err(ErrorCode::kInvalid, "'{}' cannot be mounted over", target);
    }
  }
  return {};
}

uint32_t FlagsOf(MountMode mode) {
  return mode == MountMode::kReadWrite ? jail::kMountWritable | jail::kMountIdmapped : 0u;
}

// A virtual environment that its owner keeps to himself (mode 0700) is shown as the guest's, read-only: the caller
// named it. What it leads to is not: its pyvenv.cfg may be a guest's.
uint32_t FlagsOfVisible(const language::Plan& plan, const std::string& directory) {
  if (!plan.python || plan.python->virtual_env != directory) return 0;
  constexpr mode_t kOpenToAll = S_IROTH | S_IXOTH;
  struct stat info;
  const bool is_private = stat(directory.c_str(), &info) == 0 && (info.st_mode & kOpenToAll) != kOpenToAll;
  return is_private ? uint32_t{jail::kMountIdmapped} : 0u;
}

}  // namespace

Status DescribeRootTree(const language::Plan& plan, const Policy& policy, JailSpecBuilder* builder) {
  if (policy.rootfs.empty()) {
    TRY_VOID(AddSystemDirectories(builder));
    TRY_VOID(AddEtc(plan, policy, builder));
  } else {
    builder->SetRootfs(policy.rootfs);
  }
  for (const char* device : kDevices) {
    // See FillTree: without a memory cgroup /dev/zero is a file.
    bool strict = (builder->spec().flags & jail::kStrictMemory) != 0;
    if (strict && std::string_view(device) == "/dev/zero") continue;
    TRY_VOID(builder->AddMount(device, device, jail::kMountDevice));
  }
  TRY_VOID(builder->AddLink("/proc/self/fd", "/dev/fd"));
  TRY_VOID(builder->AddLink("/proc/self/fd/0", "/dev/stdin"));
  TRY_VOID(builder->AddLink("/proc/self/fd/1", "/dev/stdout"));
  TRY_VOID(builder->AddLink("/proc/self/fd/2", "/dev/stderr"));
  TRY_VOID(builder->AddLink("pts/ptmx", "/dev/ptmx"));
  TRY_VOID(builder->AddLink("/tmp", "/var/tmp"));
  if (plan.python && policy.rootfs.empty()) {
    TRY_VOID(builder->AddLink(plan.python->executable, std::string(kPythonLinkDirectory) + "/python"));
  }

  // At their own paths, so that programs find what was configured into them.
  for (const std::string& directory : plan.visible)
    TRY_VOID(AddReadOnly(directory, FlagsOfVisible(plan, directory), builder));
  return {};
}

Status AddMounts(const std::vector<Mount>& mounts, JailSpecBuilder* builder) {
  for (const Mount& mount : mounts) {
    TRY_VOID(CheckTarget(mount.target));
    TRY_VOID(builder->AddMount(mount.source, mount.target, FlagsOf(mount.mode)));
  }
  return {};
}

Status AddPolicyMounts(const Policy& policy, JailSpecBuilder* builder) {
  if (policy.workdir.empty()) {
    builder->spec().flags |= jail::kPrivateWorkspace;
  } else {
    TRY_VOID(builder->AddMount(policy.workdir, "/workspace", jail::kMountWritable | jail::kMountIdmapped));
  }
  return AddMounts(policy.mounts, builder);
}

std::vector<Mount> ImportableMounts(const Policy& policy, bool preloads, const std::vector<std::string>& module_paths) {
  std::vector<Mount> found;
  for (const Mount& mount : policy.mounts) {
    const bool below_writable = std::ranges::any_of(policy.mounts, [&](const Mount& other) {
      return other.mode == MountMode::kReadWrite && language::IsBelow(mount.target, other.target);
    });
    const bool in_workdir = language::IsBelow(mount.target, "/workspace");
    const bool is_named = std::ranges::any_of(
        module_paths, [&](const std::string& path) { return language::IsBelow(path, mount.target); });
    if ((preloads || is_named) && mount.mode == MountMode::kReadOnly && !below_writable && !in_workdir) {
      found.push_back(mount);
    }
  }
  return found;
}

Policy Without(Policy policy, const std::vector<Mount>& mounts) {
  std::erase_if(policy.mounts, [&](const Mount& mount) {
    return std::ranges::find(mounts, mount.target, &Mount::target) != mounts.end();
  });
  return policy;
}

std::vector<MountPoint> MountPointsOf(const Policy& policy) {
  std::vector<MountPoint> points;
  for (const Mount& mount : policy.mounts) {
    struct stat info;
    const bool is_file = stat(mount.source.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
    points.push_back({mount.target, mount.mode, is_file});
  }
  return points;
}

Status AddMountPoints(const std::vector<MountPoint>& points, JailSpecBuilder* builder) {
  for (const MountPoint& point : points) {
    TRY_VOID(CheckTarget(point.target));
    const uint32_t kind = jail::kMountPoint | (point.is_file ? uint32_t{jail::kMountOnFile} : 0u);
    TRY_VOID(builder->AddMount("", point.target, FlagsOf(point.mode) | kind));
  }
  return {};
}

}  // namespace cella::confine
