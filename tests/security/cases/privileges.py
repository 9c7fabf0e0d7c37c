"""Identity and privileges: becoming more than an ordinary user, now or through a file left behind."""

from case import CREDENTIALS, FILTER, LIMITS, ROOT_MAPS_IT, Case

EPERM = ("EPERM",)
SUID, SGID, SGID_DIRECTORY = "0o4755", "0o2755", "0o2755"
HOST = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def setuid_file(call, mode, tag="", expect=EPERM, machine=""):
    return Case(f"{tag or 'setuid'}-{call}", f"a privileged mode by {call}", "make_setuid", expect, FILTER,
                (call, mode), machine=machine)


CASES = [
    *(Case(f"{call}-root", "becoming root", "become_root", ("EPERM", "EINVAL"), CREDENTIALS, (call,))
      for call in ("setuid", "setresuid", "setgid", "setresgid")),
    Case("setgroups-root", "joining root's group", "become_root", EPERM, CREDENTIALS, ("setgroups",), share=("user",),
         root_only="an ordinary user gives setgroups up to map its group"),
    # A user namespace of one id cannot honour a root-owned bit: this control runs as the caller, in no namespace.
    Case("setuid-program", "set-uid programs of the system", "setuid_program",
         ("plain", "EACCES", "EPERM", "nothing found"), CREDENTIALS, share=HOST),
    Case("setuid-file", "a set-uid root program in the workspace", "privileged_file", ("plain", "EACCES", "EPERM"),
         CREDENTIALS, ("{inside_program}",), control_args=("{outside_program}",), share=HOST,
         victims=("setuid_program",), root_only=ROOT_MAPS_IT),
    Case("capable-file", "a program with file capabilities", "privileged_file", ("plain", "EACCES", "EPERM"),
         CREDENTIALS, ("{inside_program}",), control_args=("{outside_program}",), share=HOST,
         victims=("capable_program",), root_only=ROOT_MAPS_IT, root_victim=True),
    *(setuid_file(call, SUID) for call in ("fchmod", "fchmodat", "fchmodat2", "openat", "mknodat", "tmpfile")),
    *(setuid_file(call, SUID, machine="x86_64") for call in ("chmod", "open", "creat", "mknod")),
    *(setuid_file(call, SGID, "setgid") for call in ("fchmod", "fchmodat", "openat", "mknodat")),
    setuid_file("mkdirat", SGID_DIRECTORY, "setgid"),
    setuid_file("mkdir", SGID_DIRECTORY, "setgid", machine="x86_64"),
    setuid_file("openat2", SUID, expect=("ENOSYS",)),
    # The kernel keeps 16 bits of the mode: a filter that compares more would miss the bit.
    *(setuid_file("fchmodat", mode, tag) for tag, mode in (("setuid-high-bit", "0x100009ed"),
                                                           ("setuid-bit-16", "0x109ed"),
                                                           ("setuid-upper-half", "0x1000009ed"))),
    Case("file-capabilities", "giving a file capabilities", "file_capabilities", ("EPERM", "EOPNOTSUPP"), CREDENTIALS),
    *(Case(f"capabilities-{name[3:].lower()}", f"any capability in {name}", "capabilities", ("none",), CREDENTIALS,
           (name,)) for name in ("CapPrm", "CapEff", "CapBnd")),
    Case("ambient-capability", "a capability that survives execve", "ambient_capability", ("EPERM", "EINVAL"),
         CREDENTIALS),
    Case("prctl-mm", "another program behind /proc/self/exe", "prctl_mm", ("EPERM", "EINVAL"), CREDENTIALS),
    Case("no-new-privs", "privileges by execve", "no_new_privs", ("set",), CREDENTIALS),
    Case("seccomp-mode", "no filter", "seccomp_mode", ("filtered",), FILTER),
    # The map names ids of the namespace around the jail. Only in root's run is that the host's; test_cleanup.py
    # looks from outside in both.
    Case("host-uid", "host uid 0 behind an id of the jail", "host_identity", ("unprivileged",), CREDENTIALS,
         root_only=ROOT_MAPS_IT, root_victim=True),
    Case("core-dump", "core dumps", "core_limit", ("limited",), LIMITS),
]
