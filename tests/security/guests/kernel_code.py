"""Loads code into the kernel (argument: the call), with an image that can never be accepted."""
from attack import *

REACHED = (errno.ENOEXEC, errno.EBADMSG, errno.EFAULT, errno.EBADF, errno.ENOENT, errno.EINVAL, errno.EADDRNOTAVAIL)
calls = {
    "init_module": (b"not a module", 12, b""),
    "finit_module": (-1, b"", 0),
    "delete_module": (b"cella_no_such_module", os.O_NONBLOCK),
    # More segments than there may be: refused after the permission check, before anything is read.
    "kexec_load": (0, 1 << 20, 0, 0),
    "kexec_file_load": (-1, -1, 0, 0, 0),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), reached=REACHED, unbuilt=(errno.ENOSYS,))
