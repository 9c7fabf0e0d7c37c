"""clone3, whose flags hide in memory where a filter cannot see them (argument: namespace kind, or `plain`)."""
from attack import *
import signal


def clone():
    flags = CLONE_FLAGS.get(sys.argv[1], 0)
    arguments = (ctypes.c_uint64 * 8)(flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = syscall("clone3", arguments, 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


attempt(clone)
