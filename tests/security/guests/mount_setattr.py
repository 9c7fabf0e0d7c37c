"""Clears read-only on a mount (argument) with mount_setattr."""
from attack import *

MOUNT_ATTR_RDONLY = 1
attributes = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
attempt(lambda: syscall("mount_setattr", AT_FDCWD, sys.argv[1].encode(), 0, attributes, 32))
