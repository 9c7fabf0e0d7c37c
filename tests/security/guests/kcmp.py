"""Compares kernel objects with those of PID 1, an oracle for kernel addresses."""
from attack import *

KCMP_VM = 1
attempt(lambda: syscall("kcmp", 1, os.getpid(), KCMP_VM, 0, 0), unbuilt=(errno.ENOSYS,))
