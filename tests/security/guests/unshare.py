"""Makes a new namespace (argument: its kind)."""
from attack import *

attempt(lambda: syscall("unshare", CLONE_FLAGS[sys.argv[1]]))
