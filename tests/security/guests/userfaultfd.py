"""Opens a userfaultfd, the usual way to win races inside the kernel."""
from attack import *

UFFD_USER_MODE_ONLY = 1
attempt(lambda: syscall("userfaultfd", UFFD_USER_MODE_ONLY | os.O_CLOEXEC), unbuilt=(errno.ENOSYS,))
