"""Attaches a System V shared memory segment of the host (argument: its key)."""
from attack import *

attempt(lambda: syscall("shmat", syscall("shmget", int(sys.argv[1]), 0, 0), 0, 0o10000))
