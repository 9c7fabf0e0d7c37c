#include "jail/seccomp_policy/policy.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace cella::jail::policy {
namespace {

using Test = Check::Test;

constexpr Action kAllow = SECCOMP_RET_ALLOW;
constexpr Action Refuse(int error) { return SECCOMP_RET_ERRNO | static_cast<Action>(error); }

// What ordinary programs, interpreters, compilers and language runtimes use.
constexpr const char* kAllowed[] = {
    // files and directories
    "access",
    "chdir",
    "chown",
    "close",
    "close_range",
    "copy_file_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "newfstatat",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    "landlock_restrict_self",
    "cachestat",
    // memory
    "brk",
    "madvise",
    "membarrier",
    "memfd_create",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mremap",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "remap_file_pages",
    "map_shadow_stack",
    "mseal",
    // processes, threads, identity
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "futex",
    "futex_waitv",
    "futex_wait",
    "futex_wake",
    "futex_requeue",
    "get_robust_list",
    "get_thread_area",
    "getcpu",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "ioprio_get",
    "prctl",
    "restart_syscall",
    "rseq",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_yield",
    "seccomp",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setsid",
    "setuid",
    "sysinfo",
    "times",
    "uname",
    "vfork",
    "wait4",
    "waitid",
    "waitpid",
    "riscv_flush_icache",
    // signals
    "alarm",
    "getitimer",
    "kill",
    "pause",
    "pidfd_open",
    "pidfd_send_signal",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "setitimer",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    "tgkill",
    "tkill",
    // waiting and time
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_ctl_old",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "epoll_wait_old",
    "eventfd",
    "eventfd2",
    "gettimeofday",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    // sockets and pipes; families are checked below
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "listen",
    "pipe",
    "pipe2",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    // System V and POSIX inter-process communication, in the jail's own namespace
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "getrandom",
};

// Known and refused. Without an entry a call would fail with ENOSYS; EPERM tells people that it is policy.
constexpr const char* kRefused[] = {
    "mount",
    "umount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_getfd",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "iopl",
    "ioperm",
    "modify_ldt",
    "open_by_handle_at",
    "name_to_handle_at",
    "fanotify_init",
    "fanotify_mark",
    "lookup_dcookie",
    "nfsservctl",
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "set_mempolicy_home_node",
    "move_pages",
    "migrate_pages",
    "clock_settime",
    "clock_adjtime",
    "settimeofday",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "vhangup",
    "uselib",
    "sysfs",
    "ustat",
    "vserver",
    "memfd_secret",
    "pciconfig_read",
    "pciconfig_write",
    "pciconfig_iobase",
};

constexpr uint32_t kNamespaceFlags =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
constexpr uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr uint32_t kCreates = O_CREAT | 020000000 /* __O_TMPFILE */;
constexpr uint32_t kPassPidfd = 76, kPeerPidfd = 77;  // SO_PASSPIDFD, SO_PEERPIDFD since Linux 6.5
constexpr uint32_t kInit = 1;                         // the pid of our init, which runs under the guest's own user id

Rule WithMode(const char* syscall, int mode_argument) {
  return {syscall, {{mode_argument, Test::kAnyBit, {kSetIdBits}, Refuse(EPERM)}}, kAllow};
}

Rule Opening(const char* syscall, int flags_argument) {
  return {syscall,
          {{flags_argument, Test::kNoBit, {kCreates}, kAllow},
           {flags_argument + 1, Test::kAnyBit, {kSetIdBits}, Refuse(EPERM)}},
          kAllow};
}

Rule NotOnInit(const char* syscall) { return {syscall, {{0, Test::kIn, {kInit}, Refuse(EPERM)}}, kAllow}; }

// `which` must be a single process, and not init.
Rule NotOnInitOrGroups(const char* syscall, uint32_t single_process) {
  return {
      syscall, {{0, Test::kNotIn, {single_process}, Refuse(EPERM)}, {1, Test::kIn, {kInit}, Refuse(EPERM)}}, kAllow};
}

std::vector<Rule> CheckedRules() {
  std::vector<Rule> rules;
  rules.push_back({"clone", {{0, Test::kAnyBit, {kNamespaceFlags}, Refuse(EPERM)}}, kAllow});
  // clone3 passes its flags in memory, where a filter cannot look: without it, libc falls back to clone.
  rules.push_back({"clone3", {}, Refuse(ENOSYS)});
  rules.push_back(
      {"socket",
       {{0, Test::kIn, {AF_UNIX}, kAllow},
        {0, Test::kNotIn, {AF_INET, AF_INET6}, Refuse(EAFNOSUPPORT)},
        {2, Test::kNotIn, {0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6}, Refuse(EPROTONOSUPPORT)}},
       kAllow});
  // A close that waits for unsent data would make the last process that closes it wait: the supervisor, for a
  // descriptor it was sent.
  rules.push_back({"setsockopt",
                   {{1, Test::kNotIn, {SOL_SOCKET}, kAllow},
                    {2, Test::kIn, {SO_LINGER}, Refuse(0)},
                    {2, Test::kIn, {kPassPidfd}, Refuse(ENOPROTOOPT)}},
                   kAllow});
  // A pidfd of the process that made the other end: of the supervisor, for a session's socket.
  rules.push_back({"getsockopt",
                   {{1, Test::kNotIn, {SOL_SOCKET}, kAllow}, {2, Test::kIn, {kPeerPidfd}, Refuse(ENOPROTOOPT)}},
                   kAllow});
  rules.push_back({"socketpair", {{0, Test::kNotIn, {AF_UNIX}, Refuse(EAFNOSUPPORT)}}, kAllow});
  rules.push_back({"ioctl", {{1, Test::kIn, {TIOCSTI, TIOCLINUX, TIOCSETD}, Refuse(EPERM)}}, kAllow});
  rules.push_back({"personality", {{0, Test::kNotIn, {0, 0xffffffff}, Refuse(EPERM)}}, kAllow});

  // No set-user-id or set-group-id files: on a host directory they would carry the owner's rights to whoever runs
  // them. openat2 passes its mode in memory and stays unnamed (ENOSYS).
  rules.push_back(WithMode("chmod", 1));
  rules.push_back(WithMode("fchmod", 1));
  rules.push_back(WithMode("fchmodat", 2));
  rules.push_back(WithMode("fchmodat2", 2));
  rules.push_back(WithMode("creat", 1));
  rules.push_back(WithMode("mkdir", 1));
  rules.push_back(WithMode("mkdirat", 2));
  rules.push_back(WithMode("mknod", 1));
  rules.push_back(WithMode("mknodat", 2));
  rules.push_back(Opening("open", 1));
  rules.push_back(Opening("openat", 2));

  // Init has the guest's user id (an ordinary user has only one to map), so these would be allowed on it.
  // The core size stays as it is, and saying otherwise has no effect: at zero, a crash would start the host's handler.
  rules.push_back(
      {"prlimit64",
       {{0, Test::kIn, {kInit}, Refuse(EPERM)}, {2, Test::kIn, {0}, kAllow}, {1, Test::kIn, {RLIMIT_CORE}, Refuse(0)}},
       kAllow});
  rules.push_back({"setrlimit", {{0, Test::kIn, {RLIMIT_CORE}, Refuse(0)}}, kAllow});
  rules.push_back(NotOnInit("sched_setaffinity"));
  rules.push_back(NotOnInit("sched_setscheduler"));
  rules.push_back(NotOnInit("sched_setparam"));
  rules.push_back(NotOnInit("sched_setattr"));
  rules.push_back(NotOnInitOrGroups("setpriority", PRIO_PROCESS));
  rules.push_back(NotOnInitOrGroups("ioprio_set", 1 /* IOPRIO_WHO_PROCESS */));
  return rules;
}

}  // namespace

Policy DefaultPolicy() {
  Policy policy{"Default", CheckedRules(), Refuse(ENOSYS)};
  for (const char* name : kAllowed) policy.rules.push_back({name, {}, kAllow});
  for (const char* name : kRefused) policy.rules.push_back({name, {}, Refuse(EPERM)});
  return policy;
}

Policy ZygotePolicy() {
  Policy policy = DefaultPolicy();
  policy.name = "Zygote";
  for (Rule& rule : policy.rules) {
    if (rule.syscall == "setns") rule.otherwise = kAllow;
  }
  return policy;
}

Policy StrictMemoryPolicy() {
  Policy policy = DefaultPolicy();
  policy.name = "StrictMemory";
  constexpr const char* kUncounted[] = {"memfd_create", "shmget", "msgget", "semget", "mq_open", "vmsplice"};
  std::erase_if(policy.rules, [](const Rule& rule) { return rule.syscall == "mmap" || rule.syscall == "setsockopt"; });
  for (Rule& rule : policy.rules) {
    if (std::ranges::find(kUncounted, rule.syscall) != std::end(kUncounted)) rule.otherwise = Refuse(ENOSYS);
  }
  // Memory shared without a file stays allocated while anyone maps a page of it: no figure of any process shows it.
  policy.rules.push_back({"mmap", {{3, Test::kAllBits, {MAP_SHARED | MAP_ANONYMOUS}, Refuse(ENOMEM)}}, kAllow});
  // Larger socket buffers are a wish that is heard and not fulfilled.
  policy.rules.push_back({"setsockopt",
                          {{1, Test::kNotIn, {SOL_SOCKET}, kAllow},
                           {2, Test::kIn, {SO_SNDBUF, SO_RCVBUF, SO_LINGER}, Refuse(0)},
                           {2, Test::kIn, {kPassPidfd}, Refuse(ENOPROTOOPT)}},
                          kAllow});
  return policy;
}

}  // namespace cella::jail::policy
