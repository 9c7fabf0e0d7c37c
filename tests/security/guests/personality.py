"""Changes its personality (argument: the value): no randomised addresses, executable reads, zero page."""
from attack import *

attempt(lambda: syscall("personality", int(sys.argv[1], 0)))
