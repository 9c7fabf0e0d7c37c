"""Asks for access to I/O ports (argument: iopl or ioperm)."""
from attack import *

calls = {"iopl": (3,), "ioperm": (0x80, 1, 1)}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), unbuilt=(errno.ENOSYS,))
