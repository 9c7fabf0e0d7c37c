"""Configures a file system context; the descriptor is invalid, so that EBADF means the kernel looked at it."""
from attack import *

FSCONFIG_CMD_CREATE = 6
attempt(lambda: syscall("fsconfig", -1, FSCONFIG_CMD_CREATE, 0, 0, 0), reached=(errno.EBADF, errno.EINVAL))
