"""Makes a file with a privileged mode (arguments: call, mode).

A file that a guest leaves in a bound directory would be a set-uid program of the caller's.
"""
from attack import *
import stat

call, mode = sys.argv[1], int(sys.argv[2], 0)
os.umask(0)
S_IFREG = stat.S_IFREG
if call in ("chmod", "fchmod", "fchmodat", "fchmodat2"):
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o755))
descriptor = os.open("file", os.O_RDONLY) if call == "fchmod" else -1
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
CALLS = {
    "chmod": (b"file", mode),
    "fchmod": (descriptor, mode),
    "fchmodat": (AT_FDCWD, b"file", mode),
    "fchmodat2": (AT_FDCWD, b"file", mode, 0),
    "open": (b"file", os.O_CREAT | os.O_WRONLY, mode),
    "openat": (AT_FDCWD, b"file", os.O_CREAT | os.O_WRONLY, mode),
    "creat": (b"file", mode),
    "mkdir": (b"file", mode),
    "mkdirat": (AT_FDCWD, b"file", mode),
    "mknod": (b"file", S_IFREG | mode, 0),
    "mknodat": (AT_FDCWD, b"file", S_IFREG | mode, 0),
    "openat2": (AT_FDCWD, b"file", how, 24),
}


def make():
    if call == "tmpfile":
        made = os.fstat(syscall("openat", AT_FDCWD, b".", os.O_TMPFILE | os.O_RDWR, mode))
    else:
        syscall(call, *CALLS[call])
        made = os.stat("file")
    # Today's kernels drop the bits of mkdir by themselves; there the attack is that the mode got through at all.
    if not call.startswith("mkdir") and not made.st_mode & (stat.S_ISUID | stat.S_ISGID):
        result("dropped")


attempt(make)
