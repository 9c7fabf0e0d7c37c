"""Traces a child of its own (argument: attach, seize or traceme); a tracer can rewrite a filtered child's calls."""
from attack import *
import signal

REQUESTS = {"traceme": 0, "attach": 16, "seize": 0x4206}


def trace():
    if sys.argv[1] == "traceme":
        syscall("ptrace", REQUESTS["traceme"], 0, 0, 0)
        return
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        syscall("ptrace", REQUESTS[sys.argv[1]], child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)


attempt(trace)
