"""Clones into a new namespace (arguments: its kind, and bits to set in the ignored upper half of the flags)."""
from attack import *
import signal


def clone():
    flags = CLONE_FLAGS[sys.argv[1]] | int(sys.argv[2], 0) | signal.SIGCHLD
    pid = syscall("clone", flags, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


attempt(clone)
