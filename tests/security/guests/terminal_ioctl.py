"""Uses a terminal's dangerous requests on its standard input (argument: the request as a number).

TIOCSTI types into the caller's shell; TIOCLINUX pastes. ENOTTY is the kernel's own word: the request arrived.
"""
from attack import *

byte = ctypes.create_string_buffer(b"\x06" if int(sys.argv[1], 0) & 0xFFFFFFFF == 0x541C else b"x")
attempt(lambda: syscall("ioctl", 0, int(sys.argv[1], 0), byte), reached=(errno.ENOTTY,), unbuilt=(errno.EIO,))
