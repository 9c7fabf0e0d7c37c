"""Makes a device node (argument: block or char) for the machine's memory or first loop device."""
from attack import *
import stat

kind, device = {"char": (stat.S_IFCHR, os.makedev(1, 1)), "block": (stat.S_IFBLK, os.makedev(7, 0))}[sys.argv[1]]
attempt(lambda: os.mknod("node", kind | 0o600, device))
