"""Changes how PID 1 is scheduled (argument: the system call)."""
from attack import *

SCHED_IDLE, IOPRIO_WHO_PROCESS, IOPRIO_IDLE, IOPRIO_WHO_USER = 5, 1, 3 << 13, 3
zero = ctypes.c_int(0)
mask = ctypes.c_ulong(1)
attributes = (ctypes.c_uint32 * 12)(48, SCHED_IDLE)
calls = {
    "sched_setscheduler": (1, SCHED_IDLE, ctypes.byref(zero)),
    "sched_setparam": (1, ctypes.byref(zero)),
    "sched_setattr": (1, attributes, 0),
    "sched_setaffinity": (1, 8, ctypes.byref(mask)),
    "ioprio_set": (IOPRIO_WHO_PROCESS, 1, IOPRIO_IDLE),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]))
