"""Opens a file by handle, past every path and mount (the "shocker" attack); the handle is stale on purpose."""
from attack import *

handle = (ctypes.c_uint32 * 4)(8, 1, 0xFFFFFFF0, 1)
root = os.open("/", os.O_RDONLY)
attempt(lambda: syscall("open_by_handle_at", root, handle, os.O_RDONLY), reached=(errno.ESTALE, errno.EINVAL))
