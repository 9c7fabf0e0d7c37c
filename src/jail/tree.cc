// The read-only root tree, built in a mount namespace of our own and entered with pivot_root.
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "jail/kernel_file.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/tree.h"

namespace cella::jail {
namespace {

// Sources are opened (as detached mounts) before the tmpfs of the tree covers anything of the host, so that a source
// may lie below the very directory that the tree is mounted on.
struct OpenMount {
  int fd = -1;
  bool is_dir = false;
};

// In a directory that guests may write to a link may be there to lead another session's mount astray.
enum class Links { kFollow, kRefuse };

Failure SetAttributes(int fd, uint32_t flags, int idmap_fd) {
  mount_attr attr = {};
  attr.attr_set = MOUNT_ATTR_NOSUID;
  attr.attr_set |= (flags & kMountDevice) ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV;
  if (!(flags & (kMountWritable | kMountDevice))) attr.attr_set |= MOUNT_ATTR_RDONLY;
  attr.propagation = sys::kMsPrivate;
  unsigned how = AT_EMPTY_PATH | sys::kAtRecursive;
  if (idmap_fd >= 0) {
    attr.attr_set |= MOUNT_ATTR_IDMAP;
    attr.userns_fd = static_cast<uint64_t>(idmap_fd);
    how = AT_EMPTY_PATH;
  }
  return sys::MountSetattr(fd, "", how, &attr) < 0 ? Fail(idmap_fd >= 0 ? Stage::kIdmap : Stage::kOpenSource) : kOk;
}

Failure OpenSource(const JailSpec& spec, const MountEntry& entry, OpenMount* out) {
  const char* source = At(&spec, entry.source);
  bool idmapped = (entry.flags & kMountIdmapped) && (spec.flags & kPrivileged);
  // Recursive: what is mounted below a source must become read-only too, and a plain clone of a mount with locked
  // children is refused in a user namespace.
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (idmapped ? 0u : static_cast<unsigned>(sys::kAtRecursive));
  // The supervisor resolved the path; a link in it now means that a process swaps directories.
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  int place = sys::Openat2(AT_FDCWD, source, how);
  int fd = place < 0 ? -1 : sys::OpenTree(place, "", flags | AT_EMPTY_PATH);
  int saved = errno;
  if (place >= 0) close(place);
  errno = saved;
  if (fd < 0) {
    if (errno == ENOENT && (entry.flags & kMountOptional)) return kOk;
    return Fail(Stage::kOpenSource, source);
  }
  struct stat info;
  if (fstat(fd, &info) < 0) return Fail(Stage::kOpenSource, source);
  int idmap_fd = -1;
  if (idmapped) JAIL_TRY(OpenIdmap(info.st_uid, info.st_gid, spec.host_uid, spec.host_gid, &idmap_fd));
  Failure failure = SetAttributes(fd, entry.flags, idmap_fd);
  if (idmap_fd >= 0) close(idmap_fd);
  if (failure) {
    failure.detail = source;
    return failure;
  }
  *out = {fd, S_ISDIR(info.st_mode)};
  return kOk;
}

// Opens `path` below `root` as a process confined to that root would see it: a symbolic link in a foreign root tree
// can never lead the mount outside.
int OpenInRoot(int root, const char* path, Links links = Links::kFollow) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  if (links == Links::kRefuse) how.resolve |= RESOLVE_NO_SYMLINKS;
  return sys::Openat2(root, path, how);
}

const char* BaseName(const char* path) { return strrchr(path, '/') + 1; }

// The directory above `path`, seen from inside: a link in a foreign root tree leads nowhere else.
int OpenParent(int root, const char* path) {
  char parent[4096];
  auto length = static_cast<size_t>(BaseName(path) - path);
  if (length >= sizeof parent) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(parent, path, length);
  parent[length] = '\0';
  return OpenInRoot(root, parent);
}

// Makes the missing directories of `path` below `root`, and the last component as a directory or an empty file.
Failure MakeTarget(int root, const char* path, bool is_dir, Links links = Links::kFollow) {
  char part[4096];
  size_t length = strlen(path);
  if (length >= sizeof part) {
    errno = ENAMETOOLONG;
    return Fail(Stage::kTree, path);
  }
  for (size_t end = 1; end <= length; ++end) {
    if (path[end] != '/' && path[end] != '\0') continue;
    memcpy(part, path, end);
    part[end] = '\0';
    int existing = OpenInRoot(root, part, links);
    if (existing >= 0) {
      close(existing);
      continue;
    }
    if (errno != ENOENT) return Fail(Stage::kTree, path);
    char* slash = strrchr(part, '/');
    *slash = '\0';
    int parent = OpenInRoot(root, part[0] == '\0' ? "/" : part, links);
    if (parent < 0) return Fail(Stage::kTree, path);
    const char* name = slash + 1;
    int made = 0;
    if (path[end] == '/' || is_dir) {
      made = mkdirat(parent, name, 0755);
    } else {
      made = openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
      if (made >= 0) close(made);
    }
    int saved = errno;
    close(parent);
    errno = saved;
    if (made < 0 && errno != EEXIST) return Fail(Stage::kTree, path);
  }
  return kOk;
}

Failure MakeParent(int root, const char* path) {
  char parent[4096];
  const auto length = static_cast<size_t>(BaseName(path) - path);
  if (length <= 1 || length > sizeof parent) return kOk;
  memcpy(parent, path, length - 1);
  parent[length - 1] = '\0';
  return MakeTarget(root, parent, true);
}

// The top-level entries of another root tree become entries of ours, so that the mount points we need can exist
// without changing the tree itself.
Failure AttachRootfs(int rootfs, int root) {
  alignas(dirent64) char buffer[8192];
  for (;;) {
    long n = syscall(SYS_getdents64, rootfs, buffer, sizeof buffer);
    if (n < 0) return Fail(Stage::kOpenSource, "rootfs");
    if (n == 0) return kOk;
    for (long offset = 0; offset < n;) {
      auto* entry = reinterpret_cast<dirent64*>(buffer + offset);
      offset += entry->d_reclen;
      const char* name = entry->d_name;
      bool ours = false;
      for (const char* reserved : {".", "..", "proc", "sys", "dev", "run", "tmp", "workspace", "lost+found"}) {
        ours = ours || strcmp(name, reserved) == 0;
      }
      if (ours) continue;
      struct stat info;
      if (fstatat(rootfs, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return Fail(Stage::kOpenSource, "rootfs");
      if (S_ISLNK(info.st_mode)) {
        char target[4096];
        ssize_t length = readlinkat(rootfs, name, target, sizeof target - 1);
        if (length < 0) return Fail(Stage::kOpenSource, "rootfs");
        target[length] = '\0';
        if (symlinkat(target, root, name) < 0) return Fail(Stage::kTree, "rootfs");
        continue;
      }
      if (!S_ISDIR(info.st_mode)) continue;
      int fd =
          sys::OpenTree(rootfs, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | sys::kAtRecursive | AT_SYMLINK_NOFOLLOW);
      if (fd < 0) return Fail(Stage::kOpenSource, "rootfs");
      JAIL_TRY(SetAttributes(fd, 0, -1));
      if (mkdirat(root, name, 0755) < 0) return Fail(Stage::kTree, "rootfs");
      if (sys::MoveMount(fd, "", root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0) return Fail(Stage::kAttach, "rootfs");
      close(fd);
    }
  }
}

Failure MountTreeRoot(int* root) {
  // Any existing directory will do: the mount is private to this namespace and is the root a moment later.
  for (const char* base : {"/tmp", "/mnt", "/var", "/usr"}) {
    if (sys::Mount("tmpfs", base, "tmpfs", sys::kMsNosuid | sys::kMsNodev, "size=4m,nr_inodes=4k,mode=755") < 0) {
      if (errno == ENOENT) continue;
      return Fail(Stage::kTree, base);
    }
    *root = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *root < 0 ? Fail(Stage::kTree, base) : kOk;
  }
  return Fail(Stage::kTree, "/tmp");
}

Failure FillTree(const JailSpec& spec, int root) {
  for (const char* directory : {"/proc", "/dev/pts", "/dev/shm", "/tmp", "/workspace", "/etc", "/run", "/var"}) {
    JAIL_TRY(MakeTarget(root, directory, true));
  }
  for (uint32_t i = 0; i < spec.file_count; ++i) {
    const FileEntry& file = spec.files[i];
    const char* path = At(&spec, file.path);
    int parent = OpenParent(root, path);
    if (parent < 0) return Fail(Stage::kTree, path);
    int fd = openat(parent, BaseName(path), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
    close(parent);
    if (fd < 0) return Fail(Stage::kTree, path);
    bool written = write(fd, At(&spec, file.data), file.size) == static_cast<ssize_t>(file.size);
    close(fd);
    if (!written) return Fail(Stage::kTree, path);
  }
  for (uint32_t i = 0; i < spec.link_count; ++i) {
    const char* path = At(&spec, spec.links[i].path);
    JAIL_TRY(MakeParent(root, path));
    int parent = OpenParent(root, path);
    if (parent < 0) return Fail(Stage::kTree, path);
    int made = symlinkat(At(&spec, spec.links[i].target), parent, BaseName(path));
    int saved = errno;
    close(parent);
    errno = saved;
    // Another root tree may have its own, or be read-only there.
    if (made < 0 && errno != EEXIST && errno != EROFS) return Fail(Stage::kTree, path);
  }
  if (!(spec.flags & kStrictMemory)) return kOk;
  // Mapped shared, the device is memory that no cgroup counts; a file that is one hole reads the same.
  int zero = openat(root, "dev/zero", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (zero < 0) return Fail(Stage::kTree, "/dev/zero");
  rlimit64 largest = {};
  off_t size = off_t{1} << 50;
  if (syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, &largest) == 0 &&
      largest.rlim_cur < static_cast<uint64_t>(size)) {
    size = static_cast<off_t>(largest.rlim_cur);
  }
  int grown = ftruncate(zero, size);
  close(zero);
  return grown < 0 ? Fail(Stage::kTree, "/dev/zero") : kOk;
}

Failure Attach(int fd, bool is_dir, int root, const char* target, Links links = Links::kFollow) {
  JAIL_TRY(MakeTarget(root, target, is_dir, links));
  int place = OpenInRoot(root, target, links);
  if (place < 0) return Fail(Stage::kAttach, target);
  int moved = sys::MoveMount(fd, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
  int saved = errno;
  close(place);
  close(fd);
  errno = saved;
  return moved < 0 ? Fail(Stage::kAttach, target) : kOk;
}

void SetFileSystemIds(uint32_t uid, uint32_t gid) {
  (void)syscall(SYS_setfsgid, gid);
  (void)syscall(SYS_setfsuid, uid);
}

// The scratch tmpfs is mounted over these in the jail itself, so what belongs below them is attached after that.
bool IsLate(const JailSpec& spec, const char* target) {
  return Below(target, "/tmp") || Below(target, "/var/tmp") /* a link there */ || Below(target, "/dev/shm") ||
         (Below(target, "/workspace") && (spec.flags & kPrivateWorkspace));
}

// The place of this mount lies in a directory of the host that guests may write to: in one of the mounts before it.
bool LiesInGuestDirectory(const JailSpec& spec, uint32_t index) {
  const char* target = At(&spec, spec.mounts[index].target);
  for (uint32_t i = 0; i < index; ++i) {
    if ((spec.mounts[i].flags & kMountWritable) && Below(target, At(&spec, spec.mounts[i].target))) return true;
  }
  return false;
}

// A directory of the tree that the scratch file system covers later, and below which nothing of the tree is: for mounts
// that each jail attaches below that.
Failure MountStage(const JailSpec& spec, const char** stage) {
  errno = EBUSY;
  for (const char* place : {"/dev/shm", "/tmp", "/workspace"}) {
    bool is_used = strcmp(place, "/workspace") == 0 && !(spec.flags & kPrivateWorkspace);
    for (uint32_t i = 0; i < spec.mount_count && !is_used; ++i) {
      is_used = !(spec.mounts[i].flags & kMountPoint) && Below(At(&spec, spec.mounts[i].target), place);
    }
    if (is_used) continue;
    constexpr unsigned long kFlags = sys::kMsNosuid | sys::kMsNodev | sys::kMsNoexec;
    if (sys::Mount("tmpfs", place, "tmpfs", kFlags, "size=64k,nr_inodes=256,mode=700") < 0) break;
    *stage = place;
    return kOk;
  }
  return Fail(Stage::kAttach, "stage");
}

void StagedPath(const char* stage, uint32_t index, char path[64]) { snprintf(path, 64, "%s/%u", stage, index); }

Failure AttachOneGiven(const JailSpec& spec, uint32_t index, int fd, int root, BuildFds* fds) {
  const char* target = At(&spec, spec.mounts[index].target);
  struct stat info;
  if (fstat(fd, &info) < 0) return Fail(Stage::kOpenSource, target);
  if (IsLate(spec, target)) {
    if (fds->stage == nullptr) JAIL_TRY(MountStage(spec, &fds->stage));
    char staged[64];
    StagedPath(fds->stage, index, staged);
    return Attach(fd, S_ISDIR(info.st_mode), root, staged) ? Fail(Stage::kAttach, target) : kOk;
  }
  const bool in_workdir = !(spec.flags & kPrivateWorkspace) && Below(target, "/workspace");
  const Links links = in_workdir || LiesInGuestDirectory(spec, index) ? Links::kRefuse : Links::kFollow;
  return Attach(fd, S_ISDIR(info.st_mode), root, target, links);
}

Failure EnterTree(int root) {
  if (fchdir(root) < 0) return Fail(Stage::kPivot);
  // Stacks the old root on top of the new one; detaching it leaves the new one.
  if (sys::PivotRoot(".", ".") < 0) return Fail(Stage::kPivot);
  if (sys::Umount(".", sys::kMntDetach) < 0) return Fail(Stage::kPivot);
  if (chdir("/") < 0) return Fail(Stage::kPivot);
  mount_attr attr = {};
  attr.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return sys::MountSetattr(AT_FDCWD, "/", 0, &attr) < 0 ? Fail(Stage::kReadOnlyRoot) : kOk;
}

}  // namespace

bool Below(const char* path, const char* directory) {
  size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && path[length] == '/';
}

Failure EnterOwnMounts(const JailSpec& spec) {
  if (spec.flags & kPrivileged) {
    if (unshare(CLONE_NEWNS) < 0) return Fail(Stage::kMountNamespace);
  } else {
    // Taken before unshare: afterwards both read as the overflow id.
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return Fail(Stage::kUserNamespace);
    JAIL_TRY(WriteKernelFile("/proc/self/setgroups", "deny", Stage::kUserNamespace));
    JAIL_TRY(WriteIdMap(0, "uid_map", 0, uid, Stage::kUserNamespace));
    JAIL_TRY(WriteIdMap(0, "gid_map", 0, gid, Stage::kUserNamespace));
  }
  // Nothing that happens here may travel back to the host's mounts.
  if (sys::Mount(nullptr, "/", nullptr, sys::kMsRec | sys::kMsPrivate, nullptr) < 0)
    return Fail(Stage::kMountNamespace);
  return kOk;
}

Failure OpenSources(const JailSpec& spec, int fds[kMaxMounts]) {
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    OpenMount source;
    JAIL_TRY(OpenSource(spec, spec.mounts[i], &source));
    errno = ENOENT;
    if (source.fd < 0) return Fail(Stage::kOpenSource, At(&spec, spec.mounts[i].source));
    fds[i] = source.fd;
  }
  return kOk;
}

Failure BuildTree(const JailSpec& spec) {
  OpenMount sources[kMaxMounts];
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    if (!(spec.mounts[i].flags & kMountPoint)) JAIL_TRY(OpenSource(spec, spec.mounts[i], &sources[i]));
  }
  // An unmasked /proc must stay in the tree, under the jail's own: the kernel allows a fresh /proc in a user
  // namespace only where a fully visible one is mounted already. The guest cannot uncover it.
  int host_proc = sys::OpenTree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | sys::kAtRecursive);
  if (host_proc < 0) return Fail(Stage::kOpenSource, "/proc");
  int rootfs = -1;
  if (const char* path = At(&spec, spec.rootfs)) {
    open_how how = {};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS;
    rootfs = sys::Openat2(AT_FDCWD, path, how);
    if (rootfs < 0) return Fail(Stage::kOpenSource, path);
  }
  int root = -1;
  JAIL_TRY(MountTreeRoot(&root));
  if (rootfs >= 0) {
    JAIL_TRY(AttachRootfs(rootfs, root));
    close(rootfs);
  }
  JAIL_TRY(FillTree(spec, root));
  JAIL_TRY(Attach(host_proc, true, root, "/proc"));
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    const char* target = At(&spec, spec.mounts[i].target);
    if (spec.mounts[i].flags & kMountPoint) {
      // Below the scratch file system each jail makes its own; these are for a zygote, which leaves out of its path
      // what it does not find.
      JAIL_TRY(MakeTarget(root, target, !(spec.mounts[i].flags & kMountOnFile)));
    } else if (sources[i].fd >= 0 && !LiesInGuestDirectory(spec, i)) {
      JAIL_TRY(Attach(sources[i].fd, sources[i].is_dir, root, target));
    } else if (sources[i].fd >= 0) {
      // On an idmapped mount root is nobody: what is made there is made as the guest, and belongs to the owner.
      const bool as_guest = (spec.flags & kPrivileged) != 0;
      if (as_guest) SetFileSystemIds(spec.host_uid, spec.host_gid);
      Failure failure = Attach(sources[i].fd, sources[i].is_dir, root, target, Links::kRefuse);
      if (as_guest) SetFileSystemIds(0, 0);
      if (failure) return failure;
    }
  }
  JAIL_TRY(EnterTree(root));
  close(root);
  return kOk;
}

Failure AttachGiven(const JailSpec& spec, BuildFds* fds) {
  if (unshare(CLONE_NEWNS) < 0) return Fail(Stage::kMountNamespace);
  int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return Fail(Stage::kAttach, "/");
  uint32_t taken = 0;
  if (!(spec.flags & kPrivateWorkspace)) {
    JAIL_TRY(Attach(fds->mounts[taken++], true, root, "/workspace"));
  }
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    if (spec.mounts[i].flags & kMountPoint) JAIL_TRY(AttachOneGiven(spec, i, fds->mounts[taken++], root, fds));
  }
  close(root);
  return kOk;
}

Failure TakeLate(const JailSpec& spec, const BuildFds& fds, LateMounts* late) {
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    const char* target = At(&spec, spec.mounts[i].target);
    if (!IsLate(spec, target)) continue;
    const char* place = target;
    char staged[64];
    if (spec.mounts[i].flags & kMountPoint) {
      StagedPath(fds.stage, i, staged);
      place = staged;
    }
    // Recursive: what is mounted below it is locked to it in this namespace.
    int fd = sys::OpenTree(AT_FDCWD, place, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | sys::kAtRecursive);
    if (fd < 0 && errno == ENOENT && (spec.mounts[i].flags & kMountOptional)) continue;
    if (fd < 0) return Fail(Stage::kOpenSource, target);
    struct stat info;
    if (fstat(fd, &info) < 0) return Fail(Stage::kOpenSource, target);
    late->entries[late->count++] = {fd, S_ISDIR(info.st_mode), target};
  }
  return kOk;
}

Failure AttachLate(const LateMounts& late) {
  if (late.count == 0) return kOk;
  int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return Fail(Stage::kAttach, "/");
  for (uint32_t i = 0; i < late.count; ++i) {
    JAIL_TRY(Attach(late.entries[i].fd, late.entries[i].is_dir, root, late.entries[i].target));
  }
  close(root);
  return kOk;
}

}  // namespace cella::jail
