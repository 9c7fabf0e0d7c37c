"""Sets the machine's clock (argument: the call) to a time that does not exist, so that EINVAL is reaching it."""
from attack import *

CLOCK_REALTIME, ADJ_TICK = 0, 0x4000
impossible = (ctypes.c_long * 2)(1, 2_000_000_000)
timex = (ctypes.c_uint64 * 26)(ADJ_TICK)
timex[11] = 1
calls = {
    "clock_settime": (CLOCK_REALTIME, impossible),
    "settimeofday": (impossible, 0),
    "adjtimex": (timex,),
    "clock_adjtime": (CLOCK_REALTIME, timex),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), reached=(errno.EINVAL,))
