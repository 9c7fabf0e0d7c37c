"""Uses io_uring, whose operations no filter sees (argument: setup, enter or register)."""
from attack import *

parameters = ctypes.create_string_buffer(120)
if sys.argv[1] == "setup":
    attempt(lambda: syscall("io_uring_setup", 1, parameters))
elif sys.argv[1] == "enter":
    attempt(lambda: syscall("io_uring_enter", -1, 0, 0, 0, 0, 0), reached=(errno.EBADF, errno.EINVAL))
else:
    attempt(lambda: syscall("io_uring_register", -1, 0, 0, 0), reached=(errno.EBADF, errno.EINVAL))
