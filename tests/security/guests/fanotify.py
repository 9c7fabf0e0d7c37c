"""Watches file systems with fanotify."""
from attack import *

FAN_REPORT_FID = 0x200
attempt(lambda: syscall("fanotify_init", FAN_REPORT_FID, os.O_RDONLY), unbuilt=(errno.ENOSYS,))
