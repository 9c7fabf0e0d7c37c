"""Mounts a file system (argument: its type) on a directory of its own."""
from attack import *

os.mkdir("target")
attempt(lambda: syscall("mount", b"none", b"target", sys.argv[1].encode(), 0, 0))
