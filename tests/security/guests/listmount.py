"""Lists mounts by id (kernel 6.8 and later)."""
from attack import *

LSMT_ROOT = 0xFFFFFFFFFFFFFFFF
request = (ctypes.c_uint64 * 4)(24, LSMT_ROOT, 0, 0)
answer = (ctypes.c_uint64 * 64)()
# A filter may say ENOSYS as well, so only the version tells a kernel without the call.
version = tuple(int(part) for part in platform.release().split(".")[:2])
attempt(lambda: syscall("listmount", request, answer, 64, 0), unbuilt=() if version >= (6, 8) else (errno.ENOSYS,))
