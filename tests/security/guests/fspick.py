"""Picks the mounted file system at / for reconfiguration (new mount API)."""
from attack import *

attempt(lambda: syscall("fspick", AT_FDCWD, sys.argv[1].encode(), 0))
