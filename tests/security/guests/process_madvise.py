"""Pages out memory of PID 1; the range is unmapped, so that ENOMEM comes after the permission check."""
from attack import *

MADV_PAGEOUT = 21
vector = (ctypes.c_uint64 * 2)(4096, 4096)
attempt(
    lambda: syscall("process_madvise", syscall("pidfd_open", 1, 0), vector, 1, MADV_PAGEOUT, 0),
    reached=(errno.ENOMEM,),
)
