"""Reads or writes the memory of PID 1 (argument: process_vm_readv or process_vm_writev).

The remote address is invalid: EFAULT comes after the permission check, and nothing is touched.
"""
from attack import *

buffer = ctypes.create_string_buffer(8)
local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
remote = (ctypes.c_uint64 * 2)(8, 8)
attempt(lambda: syscall(sys.argv[1], 1, local, 1, remote, 1, 0), reached=(errno.EFAULT,))
