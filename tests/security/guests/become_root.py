"""Becomes root (argument: the call)."""
from attack import *

ARGUMENTS = {"setresuid": (0, 0, 0), "setresgid": (0, 0, 0), "setgroups": ([0],)}


def become():
    getattr(os, sys.argv[1])(*ARGUMENTS.get(sys.argv[1], (0,)))
    if sys.argv[1].endswith("uid") and os.geteuid() != 0:
        result("unchanged")


attempt(become)
