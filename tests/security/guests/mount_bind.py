"""Binds the root directory into the workspace."""
from attack import *

MS_BIND, MS_REC = 0x1000, 0x4000
os.mkdir("target")
attempt(lambda: syscall("mount", b"/", b"target", 0, MS_BIND | MS_REC, 0))
