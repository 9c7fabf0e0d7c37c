"""Moves a mount; the descriptors are invalid, so that EBADF means the kernel looked at them."""
from attack import *

MOVE_MOUNT_F_EMPTY_PATH = 4
attempt(lambda: syscall("move_mount", -1, b"", AT_FDCWD, b".", MOVE_MOUNT_F_EMPTY_PATH), reached=(errno.EBADF,))
