"""Detaches a mount (argument), to uncover what lies below."""
from attack import *

MNT_DETACH = 2
attempt(lambda: syscall("umount2", sys.argv[1].encode(), MNT_DETACH))
