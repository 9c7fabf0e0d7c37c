"""Opens the caller's file on its standard input a second time, for writing; writes nothing."""
from attack import *
import stat

if not stat.S_ISREG(os.fstat(0).st_mode):
    result("copied")
attempt(lambda: os.open("/proc/self/fd/0", os.O_WRONLY))
