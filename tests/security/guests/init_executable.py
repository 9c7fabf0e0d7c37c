"""Overwrites the program of PID 1 through /proc (as CVE-2019-5736 did with runc); ETXTBSY is reaching it."""
from attack import *


def overwrite():
    fd = os.open("/proc/1/exe", os.O_RDONLY)
    os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)


attempt(overwrite, reached=(errno.ETXTBSY,))
