// What each jail mounts for itself, as the owner of its own user and mount namespaces.
#include <sys/stat.h>

#include <cstdio>
#include <initializer_list>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
namespace {

Failure MoveScratch(int fd, const char* target) {
  int moved = sys::MoveMount(fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
  int saved = errno;
  close(fd);
  errno = saved;
  return moved < 0 ? Fail(Stage::kScratch, target) : kOk;
}

}  // namespace

// One tmpfs serves /workspace, /tmp and /dev/shm, so that the disk limit holds for their sum. Its three directories
// are cloned as mounts of their own; the one for /tmp covers the tmpfs itself, so that its top is visible nowhere.
// (Detaching it instead would wait for an RCU grace period: two milliseconds on a busy machine.)
Failure MountScratch(const JailSpec& spec) {
  char options[128];
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=0755",
           static_cast<unsigned long long>(spec.scratch_bytes), static_cast<unsigned long long>(spec.scratch_inodes));
  if (sys::Mount("tmpfs", "/tmp", "tmpfs", sys::kMsNosuid | sys::kMsNodev, options) < 0) {
    return Fail(Stage::kScratch, "/tmp");
  }
  mode_t old_umask = umask(0);
  constexpr struct {
    const char* inside;
    mode_t mode;
    const char* target;
  } kParts[] = {{"/tmp/workspace", 0755, "/workspace"}, {"/tmp/tmp", 01777, "/tmp"}, {"/tmp/shm", 01777, "/dev/shm"}};
  int fds[3] = {-1, -1, -1};
  for (int i = 0; i < 3; ++i) {
    if (mkdir(kParts[i].inside, kParts[i].mode) < 0) return Fail(Stage::kScratch, kParts[i].inside);
    fds[i] = sys::OpenTree(AT_FDCWD, kParts[i].inside, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fds[i] < 0) return Fail(Stage::kScratch, kParts[i].inside);
  }
  umask(old_umask);
  if (spec.flags & kPrivateWorkspace) {
    JAIL_TRY(MoveScratch(fds[0], "/workspace"));
  } else {
    close(fds[0]);
  }
  JAIL_TRY(MoveScratch(fds[1], "/tmp"));
  return MoveScratch(fds[2], "/dev/shm");
}

Failure MountProc(bool* own_proc) {
  constexpr unsigned long kFlags = sys::kMsNosuid | sys::kMsNodev | sys::kMsNoexec;
  *own_proc = sys::Mount("proc", "/proc", "proc", kFlags, nullptr) == 0;
  if (*own_proc) return kOk;
  if (errno != EPERM) return Fail(Stage::kProc, "/proc");
  // Container engines mask parts of /proc, and then the kernel refuses a fresh one. The one below shows processes
  // outside of the jail, so it is covered: no /proc is better than that of another namespace.
  if (sys::Mount("tmpfs", "/proc", "tmpfs", kFlags | sys::kMsRdonly, "size=4k,nr_inodes=2,mode=555") < 0) {
    return Fail(Stage::kProc, "/proc");
  }
  return kOk;
}

Failure HideKeys() {
  // They list the keys of our user id outside as well: an ordinary user's own.
  for (const char* path : {"/proc/keys", "/proc/key-users"}) {
    if (sys::Mount("/dev/null", path, nullptr, sys::kMsBind, nullptr) < 0 && errno != ENOENT) {
      return Fail(Stage::kProc, path);
    }
  }
  return kOk;
}

// Beside the process itself only what programs read to learn of the machine.
Failure MountOwnProcAlone() {
  struct Part {
    const char* source;
    const char* target;
    bool is_directory;
    int fd;
  };
  char own[32];
  snprintf(own, sizeof own, "/proc/%d", getpid());
  Part parts[] = {{own, "/proc/self", true, -1},
                  {"/proc/sys", "/proc/sys", true, -1},
                  {"/proc/cpuinfo", "/proc/cpuinfo", false, -1},
                  {"/proc/meminfo", "/proc/meminfo", false, -1},
                  {"/proc/stat", "/proc/stat", false, -1},
                  {"/proc/filesystems", "/proc/filesystems", false, -1}};
  for (Part& part : parts) {
    part.fd = sys::OpenTree(AT_FDCWD, part.source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (part.fd < 0 && errno != ENOENT) return Fail(Stage::kProc, part.target);
  }
  constexpr unsigned long kFlags = sys::kMsNosuid | sys::kMsNodev | sys::kMsNoexec;
  if (sys::Mount("tmpfs", "/proc", "tmpfs", kFlags, "size=64k,nr_inodes=16,mode=555") < 0) {
    return Fail(Stage::kProc, "/proc");
  }
  for (const Part& part : parts) {
    if (part.fd < 0) continue;
    const int made = part.is_directory ? mkdir(part.target, 0555) : mknod(part.target, S_IFREG | 0444, 0);
    if (made < 0) return Fail(Stage::kProc, part.target);
    const int moved = sys::MoveMount(part.fd, "", AT_FDCWD, part.target, MOVE_MOUNT_F_EMPTY_PATH);
    if (moved < 0) return Fail(Stage::kProc, part.target);
    close(part.fd);
  }
  const unsigned long read_only = sys::kMsRemount | sys::kMsBind | sys::kMsRdonly | kFlags;
  return sys::Mount(nullptr, "/proc", nullptr, read_only, nullptr) < 0 ? Fail(Stage::kProc, "/proc") : kOk;
}

Failure MountPts() {
  if (sys::Mount("devpts", "/dev/pts", "devpts", sys::kMsNosuid | sys::kMsNoexec,
                 "newinstance,ptmxmode=0666,mode=0620") < 0) {
    // Only pseudo terminals are lost, and some kernels are built without them.
    if (errno == ENODEV || errno == EINVAL) return kOk;
    return Fail(Stage::kPts, "/dev/pts");
  }
  return kOk;
}

}  // namespace cella::jail
