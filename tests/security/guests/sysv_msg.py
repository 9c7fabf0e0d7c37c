"""Finds a System V message queue of the host (argument: its key)."""
from attack import *

attempt(lambda: syscall("msgget", int(sys.argv[1]), 0))
