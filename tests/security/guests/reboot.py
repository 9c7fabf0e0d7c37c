"""Reboots; the magic numbers are wrong, so that EINVAL comes after the permission check."""
from attack import *

attempt(lambda: syscall("reboot", 0, 0, 0, 0), reached=(errno.EINVAL,))
