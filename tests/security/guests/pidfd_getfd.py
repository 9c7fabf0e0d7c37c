"""Steals descriptor 0 of PID 1."""
from attack import *

attempt(lambda: syscall("pidfd_getfd", syscall("pidfd_open", 1, 0), 0, 0))
