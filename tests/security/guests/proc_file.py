"""Opens a kernel-wide file of /proc (arguments: name, read or write), and neither reads nor writes it.

Whether the running kernel has the file at all is asked of the whole of /proc: a jail that hides it by an empty
/proc of its own would otherwise look like a kernel without it.
"""
from attack import *

path = f"/proc/{sys.argv[1]}"
if os.geteuid() == 0 and not os.path.lexists(path) and os.path.exists("/proc/kallsyms"):
    result("unbuilt")
attempt(lambda: os.open(path, (os.O_WRONLY if sys.argv[2] == "write" else os.O_RDONLY) | os.O_NONBLOCK))
