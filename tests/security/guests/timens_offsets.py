"""Shifts the monotonic clock by a time namespace."""
from attack import *

try:
    syscall("unshare", CLONE_FLAGS["time"])
except OSError:
    pass


def shift():
    fd = os.open("/proc/self/timens_offsets", os.O_WRONLY)
    os.write(fd, b"monotonic 1 0")


attempt(shift, unbuilt=(errno.ENOENT,))
