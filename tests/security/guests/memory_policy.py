"""Changes NUMA placement (argument: the call)."""
from attack import *

MPOL_DEFAULT = 0
calls = {
    "set_mempolicy": (MPOL_DEFAULT, 0, 0),
    "mbind": (0, 0, MPOL_DEFAULT, 0, 0, 0),
    "migrate_pages": (os.getpid(), 0, 0, 0),
    "move_pages": (1, 0, 0, 0, 0, 0),
    "set_mempolicy_home_node": (0, 0, 0, 0),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), reached=(errno.EINVAL,), unbuilt=(errno.ENOSYS,))
