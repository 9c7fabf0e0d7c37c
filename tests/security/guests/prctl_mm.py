"""Swaps the program behind /proc/self/exe; the descriptor is invalid: EBADF comes after the permission check."""
from attack import *

PR_SET_MM, PR_SET_MM_MAP, MAP_SIZE = 35, 14, 104
with open("/proc/self/stat") as stream:
    fields = stream.read().rpartition(")")[2].split()
# proc(5) counts from 1, and the first field here is its third.
START_CODE, END_CODE, START_STACK, START_DATA, END_DATA, START_BRK, ARG_START, ARG_END, ENV_START, ENV_END = (
    int(fields[n - 3]) for n in (26, 27, 28, 45, 46, 47, 48, 49, 50, 51)
)
libc.sbrk.restype = ctypes.c_ulong
words = (ctypes.c_uint64 * 13)(
    START_CODE, END_CODE, START_DATA, END_DATA, START_BRK, libc.sbrk(0), START_STACK, ARG_START, ARG_END, ENV_START,
    ENV_END, 0, 0,
)
# The last word is {auxv_size, exe_fd}.
ctypes.cast(words, ctypes.POINTER(ctypes.c_uint32))[25] = 1023
attempt(lambda: syscall("prctl", PR_SET_MM, PR_SET_MM_MAP, words, MAP_SIZE, 0), reached=(errno.EBADF,))
