"""Opens a POSIX message queue of the host (argument: its name)."""
from attack import *

attempt(lambda: syscall("mq_open", sys.argv[1].encode(), os.O_RDONLY, 0, 0))
