// System calls that glibc 2.34 has no wrapper for, or whose wrapper's header clashes with the kernel's. Freestanding:
// safe between fork and exec.
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace cella::jail::sys {

inline constexpr unsigned long kMsRdonly = 1, kMsNosuid = 2, kMsNodev = 4, kMsNoexec = 8, kMsBind = 4096,
                               kMsRemount = 32, kMsRec = 16384, kMsPrivate = 1ul << 18;
inline constexpr int kMntDetach = 2;
inline constexpr int kAtRecursive = 0x8000;

inline int Mount(const char* source, const char* target, const char* type, unsigned long flags, const void* data) {
  return static_cast<int>(syscall(SYS_mount, source, target, type, flags, data));
}
inline int Umount(const char* target, int flags) { return static_cast<int>(syscall(SYS_umount2, target, flags)); }
inline int PivotRoot(const char* new_root, const char* put_old) {
  return static_cast<int>(syscall(SYS_pivot_root, new_root, put_old));
}
inline int OpenTree(int dir, const char* path, unsigned flags) {
  return static_cast<int>(syscall(SYS_open_tree, dir, path, flags));
}
inline int MoveMount(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  return static_cast<int>(syscall(SYS_move_mount, from_dir, from, to_dir, to, flags));
}
inline int MountSetattr(int dir, const char* path, unsigned flags, mount_attr* attr) {
  return static_cast<int>(syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr));
}
inline int Openat2(int dir, const char* path, const open_how& how) {
  return static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof how));
}
inline int PidfdSendSignal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}
inline long Clone3(clone_args* args) { return syscall(SYS_clone3, args, sizeof *args); }
inline int CloseRange(unsigned first, unsigned last, unsigned flags) {
  return static_cast<int>(syscall(SYS_close_range, first, last, flags));
}

}  // namespace cella::jail::sys
