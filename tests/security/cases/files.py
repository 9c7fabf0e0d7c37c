"""Files of the host: none may be read, none written."""

from case import CREDENTIALS, FILTER, NEEDS_HOST_ROOT, ROOTS_FILE, TREE, Case

# A place of the host is missing inside, or is an empty one of the jail's own.
ABSENT = ("ENOENT", "empty", "EACCES")
# Read-only mount, or a directory of a user that the guest cannot become, or Landlock.
READ_ONLY = ("EROFS", "EACCES", "EPERM")
UNREADABLE = ("ENOENT", "EACCES", "EPERM")


def listing(path, **more):
    name = "list" + path.replace("/", "-")
    return Case(name, f"{path} of the host", "list_dir", ABSENT, TREE, (path,), share=("pid",), **more)


def create(path, thaw):
    name = "create-in" + (path.replace("/", "-") if path != "/" else "-root")
    return Case(name, f"writing to {path}", "create_file", READ_ONLY, TREE, (path,), control=(("thaw", thaw),))


CASES = [
    Case("read-shadow", "the host's password hashes", "read_file", UNREADABLE, TREE, ("/etc/shadow",),
         share=("user",), root_only=ROOTS_FILE),
    Case("read-ssh-config", "the host's /etc beyond the synthetic entries", "read_file", UNREADABLE, TREE,
         ("/etc/fstab",)),
    Case("read-machine-id", "the machine's identity", "read_file", UNREADABLE, TREE, ("/etc/machine-id",)),
    listing("/root", root_only=ROOTS_FILE),
    *(listing(path) for path in ("/var/lib", "/var/log", "/sys/class", "/sys/fs/cgroup", "/run")),
    # These may be empty or hold secrets, depending on the machine: the control puts something there.
    *(listing(path, control=(("thaw", path),)) for path in ("/boot", "/home", "/opt", "/srv", "/mnt")),
    Case("list-caller-home", "the caller's home", "list_dir", ABSENT, TREE, ("{home}",), share=("pid",),
         victims=("secret_file",)),
    Case("read-secret", "a private file of the caller", "read_file", UNREADABLE, TREE, ("{secret_file}",),
         victims=("secret_file",)),
    Case("read-secret-through-proc", "the same through /proc/self/root", "read_file", UNREADABLE, TREE,
         ("/proc/self/root/../..{secret_file}",), victims=("secret_file",)),
    Case("read-host-tmp", "the host's /tmp", "read_file", UNREADABLE, TREE, ("{tmp_file}",),
         victims=("temporary_file",)),
    Case("read-host-shm", "the host's /dev/shm", "read_file", UNREADABLE, TREE, ("{shm_file}",),
         victims=("shared_memory_file",)),
    Case("hunt-secret", "a secret anywhere in the visible tree", "hunt_secret", ("nothing found",), TREE,
         ("{secret_name}",), victims=("scattered_secret",)),
    create("/usr", "/usr"),
    create("/usr/bin", "/usr/bin"),
    create("/usr/local/bin", "/usr/local/bin"),
    create("/etc", "/etc"),
    create("/bin", "/usr/bin"),
    create("/lib", "/usr/lib"),
    create("/", "/"),
    Case("poison-interpreter", "the interpreter's own libraries", "poison_interpreter", READ_ONLY, TREE,
         control_args=("/usr/lib/python3/dist-packages",), control=(("thaw", "/usr/lib/python3/dist-packages"),)),
    Case("hard-link", "a hard link to a file outside", "hard_link", ("EXDEV", "EPERM", "EACCES", "EROFS", "ENOENT"),
         TREE, ("/usr/bin/env",), control_args=("{secret_file}",), victims=("leaked_directory",)),
    *(Case(f"sysctl-{path.replace('/', '-')}", f"setting {path}", "open_write", ("EACCES", "EPERM", "EROFS", "ENOENT"),
           CREDENTIALS, (f"/proc/sys/{path}",), share=("user",), root_only=ROOTS_FILE)
      for path in ("kernel/core_pattern", "kernel/hostname", "kernel/randomize_va_space", "vm/overcommit_memory",
                   "vm/drop_caches", "fs/protected_hardlinks", "kernel/ns_last_pid")),
    *(Case(f"sysctl-{path.replace('/', '-')}", f"setting {path}", "open_write", ("EACCES", "EPERM", "EROFS", "ENOENT"),
           CREDENTIALS, (f"/proc/sys/{path}",)) for path in ("net/ipv4/ip_forward", "user/max_user_namespaces")),
    Case("sysrq", "the kernel's emergency keys", "proc_file", UNREADABLE, CREDENTIALS, ("sysrq-trigger", "write"),
         share=("user",), root_only=ROOTS_FILE, may_be_unbuilt=True),
    Case("kcore", "the kernel's memory", "proc_file", UNREADABLE, CREDENTIALS, ("kcore", "read"), share=("user",),
         root_only=ROOTS_FILE, may_be_unbuilt=True),
    *(Case(f"proc-{name}", f"/proc/{name}", "proc_file", UNREADABLE, CREDENTIALS, (name, "read"), share=("user",),
           root_only=ROOTS_FILE, may_be_unbuilt=True)
      for name in ("kmsg", "kpageflags", "slabinfo", "vmallocinfo", "timer_list")),
    Case("syslog", "the kernel's log by system call", "syslog", ("EPERM",), FILTER, share=("user",),
         root_only=NEEDS_HOST_ROOT, may_be_unbuilt=True),
    Case("release-agent", "a program that the host runs for a cgroup", "release_agent", ("EPERM", "EACCES"), FILTER,
         share=("user", "cgroup"), root_only=NEEDS_HOST_ROOT, may_be_unbuilt=True),
    Case("device-nodes", "device nodes of the host", "device_nodes", ("nothing found",), TREE),
    Case("open-kmsg-device", "/dev/kmsg", "open_only", UNREADABLE, TREE, ("/dev/kmsg",), share=("user",),
         root_only=ROOTS_FILE),
    Case("open-kernel-console", "/dev/tty0", "open_only", UNREADABLE, TREE, ("/dev/tty0",), share=("user",),
         root_only=ROOTS_FILE),
    # Landlock is asked first and says EACCES; without it the missing capability says EPERM.
    Case("mknod-char", "a node for the machine's memory", "mknod_device", ("EPERM", "EACCES"), CREDENTIALS, ("char",),
         share=("user",), root_only=NEEDS_HOST_ROOT),
    Case("mknod-block", "a node for a disk", "mknod_device", ("EPERM", "EACCES"), CREDENTIALS, ("block",),
         share=("user",), root_only=NEEDS_HOST_ROOT),
    Case("name-to-handle", "the handle of a file", "name_to_handle", ("EPERM", "ENOSYS"), FILTER),
    Case("open-by-handle", "opening past all paths", "open_by_handle", ("EPERM",), FILTER, share=("user",),
         root_only=NEEDS_HOST_ROOT),
    Case("fanotify", "watching file systems", "fanotify", ("EPERM", "ENOSYS"), FILTER, may_be_unbuilt=True),
]
