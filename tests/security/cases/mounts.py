"""Mounts, roots and namespaces: everything that would rebuild the jail from inside."""

from case import CREDENTIALS, FILTER, INIT, Case

EPERM = ("EPERM",)
# The filter says EPERM; were it gone, max_user_namespaces = 0 would say ENOSPC.
KINDS = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")

CASES = [
    Case("mount-tmpfs", "mounting a tmpfs", "mount_fs", EPERM, FILTER, ("tmpfs",)),
    Case("mount-proc", "mounting an unmasked proc", "mount_fs", EPERM, FILTER, ("proc",)),
    Case("mount-cgroup2", "mounting the cgroup tree", "mount_fs", EPERM, FILTER, ("cgroup2",)),
    Case("mount-sysfs", "mounting sysfs", "mount_fs", EPERM, FILTER, ("sysfs",)),
    Case("mount-bind", "binding / into the workspace", "mount_bind", EPERM, FILTER),
    Case("mount-shared", "making mounts propagate", "mount_propagation", EPERM, FILTER),
    Case("remount-usr", "making /usr writable", "remount_rw", EPERM, FILTER, ("/usr",), control_args=(".",)),
    Case("remount-root", "making / writable", "remount_rw", EPERM, FILTER, ("/",)),
    Case("umount-proc", "uncovering what is below /proc", "umount", EPERM, FILTER, ("/proc",), control_args=(".",)),
    Case("umount-root", "uncovering what is below /", "umount", EPERM, FILTER, ("/",), control_args=(".",)),
    Case("umount-workspace", "taking the workspace away", "umount", EPERM, FILTER, ("/workspace",),
         control_args=(".",)),
    Case("open-tree", "cloning the root mount", "open_tree", EPERM, FILTER),
    Case("fsopen", "opening a file system context", "fsopen", EPERM, FILTER),
    Case("fspick", "reconfiguring a file system", "fspick", EPERM, FILTER, ("/",), control_args=(".",)),
    Case("fsconfig", "configuring a file system", "fsconfig", EPERM, FILTER),
    Case("fsmount", "mounting a configured file system", "fsmount", EPERM, FILTER),
    Case("move-mount", "attaching a detached mount", "move_mount", EPERM, FILTER),
    Case("mount-setattr-usr", "clearing read-only on /usr", "mount_setattr", EPERM, FILTER, ("/usr",),
         control_args=(".",)),
    Case("listmount", "listing mounts by id", "listmount", ("EPERM", "ENOSYS"), FILTER, may_be_unbuilt=True),
    Case("pivot-root", "changing the root of the namespace", "pivot_root", EPERM, FILTER),
    Case("chroot", "a second chroot", "chroot", EPERM, FILTER),
    *(Case(f"unshare-{kind}", f"a new {kind} namespace", "unshare", EPERM, FILTER, (kind,)) for kind in KINDS),
    Case("unshare-time", "a new time namespace", "unshare", EPERM, FILTER, ("time",)),
    *(Case(f"clone-{kind}", f"a child in a new {kind} namespace", "clone_namespace", EPERM, FILTER, (kind, "0"))
      for kind in KINDS),
    # clone takes the lower half of the register: a filter that compares all 64 bits would miss the flag.
    Case("clone-user-high-bits", "a new user namespace, disguised by high bits", "clone_namespace", EPERM, FILTER,
         ("user", "0x700000000")),
    Case("clone3", "a child with flags that a filter cannot see", "clone3", ("ENOSYS",), FILTER, ("plain",)),
    Case("clone3-user", "a new user namespace by clone3", "clone3", ("ENOSYS",), FILTER, ("user",)),
    *(Case(f"setns-init-{kind}", f"entering init's {kind} namespace", "setns_file", ("EACCES", "EPERM"), INIT,
           ("1", kind)) for kind in ("mnt", "pid", "net", "ipc", "uts", "cgroup")),
    Case("setns-self", "entering a namespace by file", "setns_file", EPERM, FILTER, ("self", "net")),
    Case("setns-pidfd", "entering a namespace by pidfd", "setns_pidfd", EPERM, FILTER, ("1",)),
    Case("timens-offsets", "shifting the monotonic clock", "timens_offsets", ("EPERM", "EACCES"), CREDENTIALS,
         may_be_unbuilt=True),
    Case("uid-map", "becoming root of a user namespace", "uid_map", ("EPERM", "EACCES"), CREDENTIALS),
]
