"""Makes all mounts shared, so that later mounts would travel."""
from attack import *

MS_SHARED, MS_REC = 1 << 20, 0x4000
attempt(lambda: syscall("mount", b"none", b"/", 0, MS_SHARED | MS_REC, 0))
