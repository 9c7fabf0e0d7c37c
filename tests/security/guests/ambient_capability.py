"""Raises an ambient capability, which would survive execve."""
from attack import *

PR_CAP_AMBIENT, RAISE, CAP_NET_RAW, VERSION_3 = 47, 2, 13, 0x20080522
header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
data = (ctypes.c_uint32 * 6)()
libc.capget(header, data)
data[2] |= 1 << CAP_NET_RAW
libc.capset(header, data)
attempt(lambda: syscall("prctl", PR_CAP_AMBIENT, RAISE, CAP_NET_RAW, 0, 0))
