"""What all hostile guests share: raw system calls, and the one line that says how the attack ended.

The driver inlines this module into the guest, so that one file enters the jail; by hand a guest runs as
`python3 guests/NAME.py ARGS` (do that only in namespaces of your own, as support/control.py makes them).
"""

import ctypes
import errno
import os
import platform
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# name: (x86_64, aarch64); None where the architecture has no such call. From 424 on all architectures agree.
_NUMBERS = {
    "open": (2, None), "ioctl": (16, 29), "shmget": (29, 194), "shmat": (30, 196), "getpid": (39, 172),
    "socket": (41, 198), "clone": (56, 220), "kill": (62, 129), "msgget": (68, 186), "mkdir": (83, None),
    "creat": (85, None), "chmod": (90, None), "fchmod": (91, 52), "ptrace": (101, 117), "syslog": (103, 116),
    "rt_sigqueueinfo": (129, 138), "mknod": (133, None), "personality": (135, 92), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "vhangup": (153, 58),
    "modify_ldt": (154, None), "pivot_root": (155, 41), "prctl": (157, 167), "adjtimex": (159, 171),
    "chroot": (161, 51), "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "init_module": (175, 105),
    "delete_module": (176, 106), "quotactl": (179, 60), "tkill": (200, 130), "sched_setaffinity": (203, 122),
    "lookup_dcookie": (212, 18), "clock_settime": (227, 112), "tgkill": (234, 131), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "get_mempolicy": (239, 236), "mq_open": (240, 180), "kexec_load": (246, 104),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "openat": (257, 56), "mkdirat": (258, 34), "mknodat": (259, 33),
    "fchmodat": (268, 53), "unshare": (272, 97), "move_pages": (279, 239), "rt_tgsigqueueinfo": (297, 240),
    "perf_event_open": (298, 241), "fanotify_init": (300, 262), "prlimit64": (302, 261),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "clock_adjtime": (305, 266),
    "setns": (308, 268), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "finit_module": (313, 273), "sched_setattr": (314, 274), "kexec_file_load": (320, 294), "bpf": (321, 280),
    "userfaultfd": (323, 282), "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448, "set_mempolicy_home_node": 450,
    "fchmodat2": 452, "listmount": 458,
}

AT_FDCWD = -100
CLONE_FLAGS = {
    "time": 0x80, "mnt": 0x20000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}


def number(name):
    entry = _NUMBERS[name]
    if isinstance(entry, int):
        return entry
    return entry[{"x86_64": 0, "aarch64": 1}[platform.machine()]]


def syscall(name_or_number, *args):
    """A raw system call. Integers travel as full 64-bit registers, so that a guest can set the high half."""
    nr = number(name_or_number) if isinstance(name_or_number, str) else name_or_number
    words = [ctypes.c_ulong(a & 0xFFFFFFFFFFFFFFFF) if isinstance(a, int) else a for a in args]
    answer = libc.syscall(ctypes.c_long(nr), *words)
    if answer == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def result(word):
    """Ends the guest. `ok` means that the attack succeeded."""
    print(f"RESULT: {word}", flush=True)
    os._exit(0)


def attempt(action, reached=(), unbuilt=()):
    """Runs the attack and ends the guest with its verdict.

    `reached`: errnos with which the kernel's own code answers a deliberately harmless argument, after its
    permission checks; `unbuilt`: errnos that mean the kernel is built without the attacked feature.
    """
    try:
        action()
    except OSError as error:
        if error.errno in reached:
            result("ok")
        if error.errno in unbuilt:
            result("unbuilt")
        result(errno.errorcode.get(error.errno, str(error.errno)))
    result("ok")
