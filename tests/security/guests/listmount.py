"""Lists mounts by id (kernel 6.8 and later)."""
from attack import *

LSMT_ROOT = 0xFFFFFFFFFFFFFFFF
request = (ctypes.c_uint64 * 4)(24, LSMT_ROOT, 0, 0)
answer = (ctypes.c_uint64 * 64)()
attempt(lambda: syscall("listmount", request, answer, 64, 0), unbuilt=(errno.ENOSYS,))
