"""Maps itself to root in a user namespace, or rewrites the map of the one it is in."""
from attack import *

outer = os.geteuid()
try:
    syscall("unshare", CLONE_FLAGS["user"])
except OSError:
    pass


def remap():
    fd = os.open("/proc/self/uid_map", os.O_WRONLY)
    os.write(fd, f"0 {outer} 1".encode())


attempt(remap)
