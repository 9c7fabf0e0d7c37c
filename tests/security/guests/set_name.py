"""Renames the machine (argument: sethostname or setdomainname)."""
from attack import *

attempt(lambda: syscall(sys.argv[1], b"owned", 5))
