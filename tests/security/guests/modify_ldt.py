"""Reads its local descriptor table, an old and rarely used corner of the kernel."""
from attack import *

attempt(lambda: syscall("modify_ldt", 0, ctypes.create_string_buffer(64), 64), unbuilt=(errno.ENOSYS,))
