"""Opens a software performance counter on itself."""
from attack import *

PERF_TYPE_SOFTWARE, EXCLUDE_KERNEL_AND_HV = 1, (1 << 5) | (1 << 6)
attributes = ctypes.create_string_buffer(112)
words = ctypes.cast(attributes, ctypes.POINTER(ctypes.c_uint32))
words[0], words[1] = PERF_TYPE_SOFTWARE, 112
words[10] = EXCLUDE_KERNEL_AND_HV
attempt(lambda: syscall("perf_event_open", attributes, 0, -1, -1, 0))
