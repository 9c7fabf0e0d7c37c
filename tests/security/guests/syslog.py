"""Asks the size of the kernel's log."""
from attack import *

SYSLOG_ACTION_SIZE_BUFFER = 10
attempt(lambda: syscall("syslog", SYSLOG_ACTION_SIZE_BUFFER, 0, 0), unbuilt=(errno.ENOSYS,))
