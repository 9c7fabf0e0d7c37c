"""Asks for the handle of a file, the first half of opening by handle."""
from attack import *

handle = (ctypes.c_uint32 * 40)(128)
mount_id = ctypes.c_int()
attempt(lambda: syscall("name_to_handle_at", AT_FDCWD, b".", handle, ctypes.byref(mount_id), 0))
