"""Uses the kernel's key rings, which no namespace separates (argument: the call)."""
from attack import *

KEYCTL_GET_KEYRING_ID, SESSION_KEYRING, PROCESS_KEYRING = 0, -3, -2
ENOKEY = 126
calls = {
    "keyctl": (KEYCTL_GET_KEYRING_ID, SESSION_KEYRING, 1),
    "add_key": (b"user", b"cella", b"x", 1, PROCESS_KEYRING),
    "request_key": (b"user", b"cella-no-such-key", 0, 0),
}
attempt(lambda: syscall(sys.argv[1], *calls[sys.argv[1]]), reached=(ENOKEY,), unbuilt=(errno.ENOSYS,))
