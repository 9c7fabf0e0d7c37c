"""Machine-wide administration (argument: the call), each on an object that does not exist."""
from attack import *

Q_SYNC_USERS = 0x800001 << 8
calls = {
    "swapon": (b"/cella/no/such/file", 0),
    "swapoff": (b"/cella/no/such/file",),
    "acct": (b"/cella/no/such/file",),
    "quotactl": (Q_SYNC_USERS, 0, 0, 0),
    "quotactl_fd": (-1, Q_SYNC_USERS, 0, 0),
    "vhangup": (),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), reached=(errno.ENOENT, errno.EBADF), unbuilt=(errno.ENOSYS,))
