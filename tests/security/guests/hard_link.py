"""Links a file from outside (argument) into its own directory, by name and through a descriptor."""
from attack import *


def link():
    try:
        os.link(sys.argv[1], "link")
    except OSError:
        AT_SYMLINK_FOLLOW = 0x400
        fd = os.open(sys.argv[1], os.O_PATH)
        if libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"link", AT_SYMLINK_FOLLOW) != 0:
            raise OSError(ctypes.get_errno(), "linkat")


attempt(link)
