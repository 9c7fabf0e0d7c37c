"""Makes the current directory the root."""
from attack import *

attempt(lambda: syscall("pivot_root", b".", b"."))
