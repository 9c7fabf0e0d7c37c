"""Reads or lowers a resource limit of PID 1 (argument: read or write)."""
from attack import *
import resource

new = (ctypes.c_uint64 * 2)(64, 64)
old = (ctypes.c_uint64 * 2)()
wanted = new if sys.argv[1] == "write" else 0
attempt(lambda: syscall("prlimit64", 1, resource.RLIMIT_NOFILE, wanted, old))
